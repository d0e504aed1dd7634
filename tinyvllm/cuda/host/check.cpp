// Check mode: hears of every access to memory before it is made, and has it judged (check_judge.h). Kernels are built
// with -fsanitize=thread, which turns each load and store into a call, and with -fsanitize=bounds,object-size, which
// call where an index leaves a declared array; these are the calls, without the sanitizers' own libraries. One worker
// runs all blocks, so nothing here needs a lock.
#include "check.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "check_judge.h"

namespace emu::check {

char* reserve(size_t bytes) {
  void* p = mmap(nullptr, bytes ? bytes : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : (char*)p;
}
void release(void* memory, size_t bytes) { munmap(memory, bytes ? bytes : 1); }

static int instrumented;

// ---- hooks of the runtime ----

static void launch_start(Launch* l) {
  launch = l, data = (Data*)l->mode_data;
  data->instrumented = instrumented;
  stacks = (uintptr_t)l->pools[0].stacks, stacks_bytes = l->pools[0].count * stack_bytes;
  image = data->base, image_bytes = data->image_end - data->base;
  last_array = 0, doubt.open = false;
  for (int i = 0; i < data->num_variables + data->num_guards; i++) {
    size_t end = data->variables[i].offset + data->variables[i].bytes;
    if (end > variable_bytes) variable_bytes = end;
  }
  variable_at = (uint16_t*)reserve(variable_bytes * sizeof *variable_at);
  for (int i = 0; i < data->num_variables + data->num_guards; i++)
    for (size_t k = 0; k < data->variables[i].bytes; k++)
      variable_at[data->variables[i].offset + k] = i < data->num_variables ? i + 1 : guard;
  static_shadow = make_shadow(variable_bytes, 4, true);
  dynamic_shadow = make_shadow(l->shared_bytes, 4, true);
  for (int i = 0; i < data->num_regions && i < max_regions; i++)
    if (data->regions[i].tracked) region_shadow[i] = make_shadow(data->regions[i].bytes, data->regions[i].unit, false);
}

static void launch_end(Launch*) {
  drop_shadow(&static_shadow);
  drop_shadow(&dynamic_shadow);
  for (Shadow& s : region_shadow) drop_shadow(&s);
  if (variable_at) release(variable_at, variable_bytes * sizeof *variable_at);
  if (pool) release(pool, max_more * sizeof(MoreReaders));
  pool = nullptr, variable_at = nullptr, variable_bytes = 0;
  end_order();
}

static void block_start(Block* b) {
  begin_order(b);
  pool_used = 1;
}

static void barrier(Block* b) {
  settle();
  nobody_wrote();
  order.epoch = (uint32_t)b->epoch;
  order.version++;
  pool_used = 1;
}

static void warp_meet(Block*, unsigned warp, unsigned lanes, const char* what, Site) {
  settle();
  if (!strcmp(what, "__syncwarp")) warp_met(warp, lanes);
}

static void thread_exit(Thread* t) {
  settle();
  if (t->block->alive == 1) nobody_wrote();
}

// An asynchronous copy writes shared memory at any time between its start and the wait for it.
static Shadow* shadow_of(Block* b, const void* p, size_t* at) {
  *at = (uintptr_t)p - (uintptr_t)b->static_shared;
  if (*at < variable_bytes) return &static_shadow;
  *at = (uintptr_t)p - (uintptr_t)b->dynamic_shared;
  return *at < b->dynamic_bytes ? &dynamic_shadow : nullptr;
}

static void mark_copy(Thread* t, void* to, unsigned bytes, bool begins) {
  size_t at;
  Shadow* s = shadow_of(t->block, to, &at);
  if (!s) return;
  each_cell(*s, at, bytes, [&](Cell* c, size_t) {
    c->copying = begins;
    if (!begins) c->written = 1, c->writer = now(t->index), c->writer_access = writing;
    return true;
  });
}

static void copy_start(Thread* t, void* to, unsigned bytes, Site site) {
  access(to, bytes, writing, is_line | (Site32)site.line, true);
  settle();
  mark_copy(t, to, bytes, true);
}
static void copy_done(Thread* t, void* to, unsigned bytes, Site) { mark_copy(t, to, bytes, false); }

__attribute__((constructor)) static void install() {
  static const Hooks hooks = {launch_start, launch_end, block_start, nullptr, barrier, warp_meet, thread_exit, copy_done, copy_start};
  emu_set_hooks(&hooks);
}

}  // namespace emu::check

// ---- what the compiler calls ----

using namespace emu::check;

#define SITE ((Site32)((uint64_t)__builtin_return_address(0) - 1 - data->base))
#define TSAN(name) extern "C" __attribute__((visibility("hidden"))) void __tsan_##name

template <size_t bytes>
static inline __attribute__((always_inline)) void natural(void* p, Access kind, Site32 site) {
  if (__builtin_expect((uintptr_t)p % bytes, 0)) {
    settle();
    report(misaligned, Visit{emu::self()->index, kind, site, true}, nowhere, -1, (int64_t)p, bytes);
    fail();
  }
  access(p, bytes, kind, site, true);
}

#define SIZES(bytes)                                                                      \
  TSAN(read##bytes)(void* p) { natural<bytes>(p, reading, SITE); }                        \
  TSAN(write##bytes)(void* p) { natural<bytes>(p, writing, SITE); }                       \
  TSAN(volatile_read##bytes)(void* p) { natural<bytes>(p, polling, SITE); }               \
  TSAN(volatile_write##bytes)(void* p) { natural<bytes>(p, signalling, SITE); }           \
  TSAN(unaligned_read##bytes)(void* p) { access(p, bytes, reading, SITE, false); }        \
  TSAN(unaligned_write##bytes)(void* p) { access(p, bytes, writing, SITE, false); }       \
  TSAN(unaligned_volatile_read##bytes)(void* p) { access(p, bytes, polling, SITE, false); } \
  TSAN(unaligned_volatile_write##bytes)(void* p) { access(p, bytes, signalling, SITE, false); }
SIZES(1)
SIZES(2)
SIZES(4)
SIZES(8)
SIZES(16)
TSAN(read_range)(void* p, size_t bytes) { access(p, bytes, reading, SITE, false); }
TSAN(write_range)(void* p, size_t bytes) { access(p, bytes, writing, SITE, false); }
// clang turns memcpy and memset into these.
extern "C" __attribute__((visibility("hidden"))) void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
  access(from, bytes, reading, SITE, false);
  access(to, bytes, writing, SITE, false);
  return memcpy(to, from, bytes);
}
extern "C" __attribute__((visibility("hidden"))) void* __tsan_memmove(void* to, const void* from, size_t bytes) {
  access(from, bytes, reading, SITE, false);
  access(to, bytes, writing, SITE, false);
  return memmove(to, from, bytes);
}
extern "C" __attribute__((visibility("hidden"))) void* __tsan_memset(void* to, int value, size_t bytes) {
  access(to, bytes, writing, SITE, false);
  return memset(to, value, bytes);
}
TSAN(init)() { instrumented = 1; }  // from a constructor of the kernel's module
TSAN(func_entry)(void*) {}
TSAN(func_exit)() {}
TSAN(vptr_update)(void**, void*) {}
TSAN(vptr_read)(void**) {}
TSAN(atomic_thread_fence)(int) {
  settle();
  fence(emu::self()->index);
}
TSAN(atomic_signal_fence)(int) {}

// clang calls these in place of the emulator's own atomics, which have already been judged (emu_on_access).
#define ATOMIC(bits, T)                                                                                       \
  TSAN_T(T, bits, load)(const volatile T* p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }             \
  TSAN_T(T, bits, exchange)(volatile T* p, T v, int) { return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); }   \
  TSAN_T(void, bits, store)(volatile T* p, T v, int) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }             \
  TSAN_T(T, bits, compare_exchange_val)(volatile T* p, T old, T v, int, int) {                                 \
    __atomic_compare_exchange_n(p, &old, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                        \
    return old;                                                                                                \
  }
#define TSAN_T(T, bits, name) extern "C" __attribute__((visibility("hidden"))) T __tsan_atomic##bits##_##name
ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

// The emulator's own functions: atomics, cached loads and stores.
extern "C" void emu_on_access(const volatile void* p, size_t bytes, int kind, int line, const char*) {
  static const Access of[] = {reading, writing, changing};
  access(p, bytes, of[kind], is_line | (Site32)line, true);
}

// -fsanitize=bounds, object-size: the layout that the compilers give these is that of LLVM's ubsan_handlers.h.
struct UbsanType {
  uint16_t kind, info;  // of an integer, info / 2 is the logarithm of its bits
  char name[1];
};
struct UbsanPlace {
  const char* file;
  uint32_t line, column;
};
struct UbsanIndex {
  UbsanPlace place;
  const UbsanType *array, *index;
};
struct UbsanObject {
  UbsanPlace place;
  const UbsanType* type;
  uint8_t log_alignment, kind;
};

static Report* outside(const UbsanPlace& place, const UbsanType* type, Site32 site) {
  settle();
  Report* r = report(bounds, Visit{emu::self()->index, reading, site, true}, declared, -1, 0, 0);
  r->file = place.file, r->line = place.line, r->column = place.column;
  strncpy(r->type, type->name, sizeof r->type - 1);
  return r;
}

extern "C" __attribute__((visibility("hidden"))) void __ubsan_handle_out_of_bounds(UbsanIndex* d, uintptr_t index) {
  Report* r = outside(d->place, d->array, SITE);
  unsigned bits = 1u << (d->index->info >> 1);
  r->index = bits < 64 ? (int64_t)(index << (64 - bits)) >> (64 - bits) : (int64_t)index;  // -1u is told as -1
  fail();
}

// A pointer has left the variable that it was made from.
extern "C" __attribute__((visibility("hidden"))) void __ubsan_handle_type_mismatch_v1(UbsanObject* d, uintptr_t address) {
  Report* r = outside(d->place, d->type, SITE);
  emu::Block* b = emu::self()->block;
  r->access = d->kind == 1 ? writing : reading;
  r->index = (int64_t)address;
  uint64_t nearest = ~0ull;
  for (int i = 0; i < data->num_variables; i++) {  // the one that ends before it, or begins behind it
    uintptr_t begin = (uintptr_t)b->static_shared + data->variables[i].offset, end = begin + data->variables[i].bytes;
    uint64_t distance = address >= end ? address - end : address < begin ? begin - address : ~0ull;
    if (distance < nearest) nearest = distance, r->item = i, r->offset = (int64_t)(address - begin);
  }
  if (nearest < 1 << 20) r->space = in_static_shared;
  fail();
}
