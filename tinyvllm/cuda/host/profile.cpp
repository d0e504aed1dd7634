// Profile mode, first half: writes down what every thread does, in order.
//
// The kernel is compiled with calls at every basic block, comparison, load and store (-fsanitize-coverage, and
// -fsanitize=thread without its library). Threads run one after another, so each has its own trace; whenever a warp
// has a common point behind it (a block barrier, its end) its traces are replayed together (profile_warp.cpp).
#include "profile.h"

#include <stdlib.h>
#include <string.h>

using namespace emu;
using namespace profile;

namespace {

Data* data;
uint16_t* site_at;       // by the offset of a return address in the program's code
Lane lanes[max_threads];
uint64_t events_held;
uintptr_t stacks, stacks_bytes;  // of the only worker
unsigned enter_site, leave_site;

bool recording() { return site_at; }  // else: a constructor of the module, which is no thread of a kernel

[[noreturn]] void too_many(const char* what) {
  emu_fail(fault_check, nullptr, 0, 0, 0, "profile mode can't hold %s: profile a smaller problem (fewer iterations between "
           "barriers, a smaller block)", what);
}

unsigned new_site(uint64_t pc, const char* file, int line, Kind kind, unsigned bytes) {
  if (data->num_places >= data->max_places) too_many("so many different instructions");
  Place* s = &data->places[data->num_places];
  s->pc = pc, s->file = file, s->line = line, s->kind = kind, s->bytes = bytes;
  return data->num_places++;
}

inline unsigned site(uintptr_t pc, Kind kind, unsigned bytes) {
  uint64_t offset = pc - data->text;
  if (__builtin_expect(offset >= data->text_bytes, 0)) return new_site(pc, nullptr, 0, kind, bytes);
  uint16_t& known = site_at[offset];
  if (__builtin_expect(!known, 0)) known = new_site(pc, nullptr, 0, kind, bytes);
  return known;
}

// For what the emulator's own functions do: known by the line that called them.
unsigned site_on_line(const char* file, int line, Kind kind, unsigned bytes) {
  for (uint64_t i = 1; i < data->num_places; i++) {
    const Place& s = data->places[i];
    if (!s.pc && s.line == line && s.kind == kind && s.bytes == bytes && s.file && !strcmp(s.file, file)) return i;
  }
  return new_site(0, file, line, kind, bytes);
}

inline void write_down(Lane* lane, uint64_t e) {
  if (__builtin_expect(lane->count == lane->capacity, 0)) {
    size_t more = lane->capacity ? lane->capacity : 256;
    if (events_held + more > data->max_events) too_many("a trace of this length");
    uint64_t* grown = (uint64_t*)realloc(lane->events, (lane->capacity + more) * sizeof(uint64_t));
    if (!grown) too_many("a trace of this length");
    events_held += more;
    lane->events = grown, lane->capacity += more;
  }
  lane->events[lane->count++] = e;
}

inline bool of_emulator(const Block* block, uintptr_t address) {  // stacks (threadIdx too), blockIdx, blockDim
  return address - stacks < stacks_bytes || address - (uintptr_t)block < sizeof(Block);
}

inline void access(const volatile void* p, Kind kind, unsigned bytes, uintptr_t pc) {
  Thread* t = self();
  if (of_emulator(t->block, (uintptr_t)p)) return;
  write_down(&lanes[t->index], event(site(pc, kind, bytes), (uintptr_t)p));
}

// A copy of a struct. A GPU moves it in pieces as large as its alignment allows, which is lost here: eight bytes and
// sixteen come as one access when they are aligned to it, so these are pieces of four, or less if they must.
void access_range(const void* p, uint64_t bytes, Kind kind, uintptr_t pc) {
  uintptr_t address = (uintptr_t)p;
  unsigned piece = (address | bytes) % 4 == 0 ? 4 : (address | bytes) % 2 == 0 ? 2 : 1;
  for (uint64_t i = 0; i < bytes; i += piece) access((const char*)p + i, kind, piece, pc);
}

void flush_warp(const Block* block, unsigned warp) {
  unsigned first = warp * warp_lanes, n = block->num_threads - first;
  if (n > warp_lanes) n = warp_lanes;
  replay_warp(data, block, &lanes[first], n);
  for (unsigned i = first; i < first + n; i++) {  // long traces of one warp give way to those of the next
    if (lanes[i].capacity <= 1 << 14) continue;
    free(lanes[i].events);
    events_held -= lanes[i].capacity;
    lanes[i].events = nullptr, lanes[i].capacity = 0;
  }
}

void on_launch_start(Launch* launch) {
  data = (Data*)launch->mode_data;
  site_at = (uint16_t*)calloc(data->text_bytes + 1, sizeof(uint16_t));
  stacks = (uintptr_t)launch->pools[0].stacks, stacks_bytes = launch->pools[0].count * stack_bytes;
  data->num_places = 1;  // number 0 means none
  enter_site = new_site(0, nullptr, 0, kind_enter, 0);
  leave_site = new_site(0, nullptr, 0, kind_leave, 0);
  events_held = 0;
}

void on_launch_end(Launch*) {
  for (Lane& lane : lanes) free(lane.events);
  memset(lanes, 0, sizeof lanes);
  free(site_at);
  site_at = nullptr;
}

void on_block_start(Block* block) {
  for (unsigned i = 0; i < block->num_threads; i++) {
    Lane& lane = lanes[i];
    lane.count = lane.next = 0, lane.depth = 0, lane.condition = 0, lane.pc[0] = 0;
  }
}

void on_barrier(Block* block) {
  unsigned number = site_on_line(block->barrier.site.file, block->barrier.site.line, kind_barrier, 0);
  data->places[number].warps++;
  data->places[number].threads += block->alive;
  for (unsigned w = 0; w * warp_lanes < block->num_threads; w++) flush_warp(block, w);
}

void on_warp_meet(Block*, unsigned, unsigned arrived, const char* what, Site where) {
  bool tensor_core = !strncmp(what, "mma_", 4);
  unsigned number = site_on_line(where.file, where.line, kind_warp, tensor_core);
  data->places[number].warps++;
  data->places[number].threads += __builtin_popcount(arrived);
}

void on_thread_exit(Thread* t) {  // its lane of `alive` is still set
  unsigned warp = t->index / warp_lanes;
  if (t->block->warps[warp].alive == 1u << t->index % warp_lanes) flush_warp(t->block, warp);
}

void on_copy_done(Thread* t, void* to, unsigned bytes, Site where) {
  write_down(&lanes[t->index], event(site_on_line(where.file, where.line, kind_copy, bytes), (uintptr_t)to));
}

__attribute__((constructor)) void set_hooks() {
  static const Hooks hooks = {on_launch_start, on_launch_end, on_block_start, nullptr,
                              on_barrier,      on_warp_meet,  on_thread_exit, on_copy_done};
  emu_set_hooks(&hooks);
}

}  // namespace

#define PC ((uintptr_t)__builtin_return_address(0))

extern "C" {

void emu_on_access(const volatile void* p, size_t bytes, int kind, int line, const char* file) {
  Thread* t = self();
  if (of_emulator(t->block, (uintptr_t)p)) return;
  Kind k = kind == access_read ? kind_load : kind == access_write ? kind_store : kind_atomic;
  write_down(&lanes[t->index], event(site_on_line(file, line, k, bytes), (uintptr_t)p));
}

// ---- -fsanitize-coverage=trace-pc, trace-cmp ----

void __sanitizer_cov_trace_pc() {
  if (recording()) write_down(&lanes[self()->index], event(site(PC, kind_block, 0), 0));
}

#define CONDITION(name, T)                                                                  \
  void __sanitizer_cov_trace_##name(T, T) {                                                 \
    write_down(&lanes[self()->index], event(site(PC, kind_condition, 0), 0));               \
  }
CONDITION(cmp1, uint8_t)
CONDITION(cmp2, uint16_t)
CONDITION(cmp4, uint32_t)
CONDITION(cmp8, uint64_t)
CONDITION(const_cmp1, uint8_t)
CONDITION(const_cmp2, uint16_t)
CONDITION(const_cmp4, uint32_t)
CONDITION(const_cmp8, uint64_t)
CONDITION(cmpf, float)
CONDITION(cmpd, double)
void __sanitizer_cov_trace_switch(uint64_t, void*) {
  write_down(&lanes[self()->index], event(site(PC, kind_condition, 0), 0));
}

// ---- -fsanitize=thread ----

void __tsan_init() {}
void __tsan_func_entry(void*) {
  if (recording()) write_down(&lanes[self()->index], event(enter_site, 0));
}
void __tsan_func_exit() {
  if (recording()) write_down(&lanes[self()->index], event(leave_site, 0));
}

#define ACCESS(bytes)                                                                                           \
  void __tsan_read##bytes(void* p) { access(p, kind_load, bytes, PC); }                                         \
  void __tsan_write##bytes(void* p) { access(p, kind_store, bytes, PC); }                                       \
  void __tsan_volatile_read##bytes(void* p) { access(p, kind_load, bytes, PC); }                                \
  void __tsan_volatile_write##bytes(void* p) { access(p, kind_store, bytes, PC); }                              \
  void __tsan_unaligned_read##bytes(void* p) { access_range(p, bytes, kind_load, PC); }                         \
  void __tsan_unaligned_write##bytes(void* p) { access_range(p, bytes, kind_store, PC); }                       \
  void __tsan_unaligned_volatile_read##bytes(void* p) { access_range(p, bytes, kind_load, PC); }                \
  void __tsan_unaligned_volatile_write##bytes(void* p) { access_range(p, bytes, kind_store, PC); }
ACCESS(1)
ACCESS(2)
ACCESS(4)
ACCESS(8)
ACCESS(16)
#undef ACCESS
void __tsan_read_range(void* p, unsigned long bytes) { access_range(p, bytes, kind_load, PC); }
void __tsan_write_range(void* p, unsigned long bytes) { access_range(p, bytes, kind_store, PC); }
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) {}
}
