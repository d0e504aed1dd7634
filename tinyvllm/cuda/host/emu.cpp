// The emulator's scheduler: runs the blocks of a launch on a few OS threads, the threads of a block as fibers.
//
// A thread runs until it waits (block barrier, warp function) or returns; then the next ready one goes on. A
// thread that returned leaves its stack to the next one that has not begun, so kernels without barriers never
// switch. Nothing ready but threads alive is a deadlock, found at once and told with everybody's place.
#include "emu.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "platform.h"
#include "switch.h"

namespace emu {

struct AsyncCopy {
  void* to;
  const void* from;
  unsigned bytes, from_bytes, group;
  Site site;
};
struct AsyncCopies {
  unsigned count, group;
  AsyncCopy copies[64];
};

struct Worker {
  Launch* launch;
  Pool* pool;
  pthread_t thread;
  void* scheduler;         // where the scheduler is parked while threads run
  void* sp[max_threads];   // of parked threads; null: has not begun
  uint16_t ready[2 * max_threads];
  unsigned head, num_ready;
  uint16_t free_stacks[max_threads];
  unsigned num_free, spins;
  Site last_atomic;        // where an endless wait probably is, if it is interrupted inside the runtime
  AsyncCopies* copies;     // [max_threads], made when first needed
  char *dynamic_map, *signal_stack;
  size_t dynamic_map_bytes;
  Block block;
};

struct State {
  Worker** workers;
  uint64_t next_block, num_blocks;
  int stop, failed;
  int running;
  pthread_mutex_t mutex;
  pthread_cond_t finished;
  SignalHandlers handlers;
};

static Hooks hooks;
static Launch* active;  // Python lets one launch run at a time

static State* state_of(Launch* launch) { return (State*)launch->state; }

static void push_front(Worker* w, unsigned i) {
  w->ready[--w->head % (2 * max_threads)] = i;
  w->num_ready++;
}
static void push_back(Worker* w, unsigned i) { w->ready[(w->head + w->num_ready++) % (2 * max_threads)] = i; }
static unsigned pop_front(Worker* w) {
  w->num_ready--;
  return w->ready[w->head++ % (2 * max_threads)];
}

[[noreturn]] static void give_up(Worker* w) {  // leave the block: its stacks are simply used anew
  void* nowhere;
  emu_switch(&nowhere, w->scheduler);
  __builtin_unreachable();
}

static uint3 position(const Block* b, unsigned i) {
  return uint3{i % b->dim.x, i / b->dim.x % b->dim.y, i / (b->dim.x * b->dim.y)};
}

static void fill_fault(Launch* launch, int kind, const Thread* t, const char* file, int line, uint64_t pc,
                       uint64_t address) {
  Fault* f = &launch->fault;
  f->kind = kind;
  f->file = file;
  f->line = line;
  f->pc = pc;
  f->address = address;
  if (!t) return;
  f->block[0] = t->block->index.x, f->block[1] = t->block->index.y, f->block[2] = t->block->index.z;
  f->thread[0] = t->tid.x, f->thread[1] = t->tid.y, f->thread[2] = t->tid.z;
}

static bool first_to_fail(Launch* launch) {
  __atomic_store_n(&state_of(launch)->stop, 1, __ATOMIC_RELAXED);
  return !__atomic_exchange_n(&state_of(launch)->failed, 1, __ATOMIC_ACQ_REL);
}

static int bounded(int written, int room) { return written < 0 ? 0 : written < room ? written : room - 1; }

static void report_deadlock(Block* b) {
  Worker* w = b->worker;
  if (!first_to_fail(w->launch)) give_up(w);
  char* text = w->launch->fault.text;
  int room = sizeof w->launch->fault.text, n = 0;
  n += bounded(snprintf(text, room, "deadlock, nobody can go on"), room);
  Thread first = {};
  for (unsigned i = 0; i < b->num_threads;) {
    if (!(b->warps[i / warp_lanes].alive >> i % warp_lanes & 1)) {
      i++;
      continue;
    }
    if (!first.block) first = Thread{position(b, i), i, b};
    const Wait& wait = b->wait[i];
    unsigned end = i + 1;
    while (end < b->num_threads && (b->warps[end / warp_lanes].alive >> end % warp_lanes & 1) &&
           b->wait[end].site.line == wait.site.line && b->wait[end].what == wait.what &&
           b->wait[end].mask == wait.mask && (!wait.mask || end / warp_lanes == i / warp_lanes))
      end++;
    n += bounded(snprintf(text + n, room - n, end - i == 1 ? "; thread %u waits" : "; threads %u-%u wait", i, end - 1),
                 room - n);
    n += bounded(snprintf(text + n, room - n, " in %s (line %d)", wait.what, wait.site.line), room - n);
    if (wait.mask) {
      Warp* warp = &b->warps[i / warp_lanes];
      unsigned missing = wait.mask & warp->alive;
      for (int g = 0; g < warp->num_groups; g++)
        if (warp->groups[g].mask == wait.mask) missing &= ~warp->groups[g].arrived;
      n += bounded(snprintf(text + n, room - n, " with mask 0x%08x, where lanes 0x%08x of its warp never came", wait.mask,
                            missing), room - n);
    }
    i = end;
  }
  const Wait& wait = b->wait[first.index];
  fill_fault(w->launch, fault_deadlock, &first, wait.site.file, wait.site.line, 0, 0);
  give_up(w);
}

static void fiber_main();

static void* begin(Worker* w, unsigned i) {  // a fresh stack for thread i
  unsigned slot = w->free_stacks[--w->num_free];
  Thread* t = record_of((uintptr_t)w->pool->stacks + slot * stack_bytes);
  t->tid = position(&w->block, i);
  t->index = i;
  t->block = &w->block;
  return emu_fresh_stack((char*)t - 64, fiber_main);
}

static void go_on(Worker* w, unsigned own) {  // park thread `own`, switch to the next ready one
  if (__builtin_expect(__atomic_load_n(&state_of(w->launch)->stop, __ATOMIC_RELAXED), 0)) {
    // Stopped from outside, and the signal has not come yet: this thread is where the launch was.
    if (first_to_fail(w->launch)) fill_fault(w->launch, fault_interrupted, self(), nullptr, 0, 0, 0);
    give_up(w);
  }
  if (__builtin_expect(!w->num_ready, 0)) report_deadlock(&w->block);
  w->spins = 0;
  unsigned i = pop_front(w);
  if (i == own) return;
  void* to = w->sp[i];
  if (!to) to = begin(w, i);
  emu_switch(&w->sp[own], to);
}

static void release_barrier(Block* b) {
  Worker* w = b->worker;
  b->result_count = b->count, b->result_any = b->any, b->result_all = b->all;
  b->count = b->any = 0, b->all = 1;
  b->waiting = 0;
  b->epoch++;
  if (hooks.barrier) hooks.barrier(b);
  for (unsigned i = 0; i < b->num_threads; i++)
    if (b->warps[i / warp_lanes].alive >> i % warp_lanes & 1) push_back(w, i);
}

static void finish_group(Block* b, unsigned warp_index, int g, void (*finish)(void**, unsigned), unsigned except) {
  Warp* warp = &b->warps[warp_index];
  Group group = warp->groups[g];
  warp->groups[g] = warp->groups[--warp->num_groups];
  if (hooks.warp_meet) hooks.warp_meet(b, warp_index, group.arrived, group.what, group.site);
  if (finish) finish(warp->payload, group.arrived);
  // At the front and the lowest lane first: a warp goes on together, while its stacks are in the cache.
  for (int l = warp_lanes - 1; l >= 0; l--)
    if ((group.arrived & ~except) >> l & 1) push_front(b->worker, warp_index * warp_lanes + l);
}

static void complete_copies(Thread* t, unsigned below) {
  AsyncCopies* list = &t->block->worker->copies[t->index];
  unsigned kept = 0;
  for (unsigned i = 0; i < list->count; i++) {
    AsyncCopy c = list->copies[i];
    if (c.group >= below) {
      list->copies[kept++] = c;
      continue;
    }
    if (hooks.copy_done) hooks.copy_done(t, c.to, c.bytes, c.site);
    memcpy(c.to, c.from, c.from_bytes);
    memset((char*)c.to + c.from_bytes, 0, c.bytes - c.from_bytes);
  }
  list->count = kept;
}

static void thread_returned(Thread* t) {
  Block* b = t->block;
  if (b->worker->copies) complete_copies(t, ~0u), b->worker->copies[t->index].group = 0;
  if (hooks.thread_exit) hooks.thread_exit(t);
  unsigned warp_index = t->index / warp_lanes;
  Warp* warp = &b->warps[warp_index];
  warp->alive &= ~(1u << t->index % warp_lanes);
  b->alive--;
  // Since Volta a thread that has returned is no longer waited for.
  for (int g = 0; g < warp->num_groups; g++) {
    Group& group = warp->groups[g];
    if (group.arrived == (group.mask & warp->alive)) {
      unsigned any = __builtin_ctz(group.arrived);
      finish_group(b, warp_index, g--, b->wait[warp_index * warp_lanes + any].finish, 0);
    }
  }
  if (b->alive && b->waiting == b->alive) release_barrier(b);
}

static void fiber_main() {
  Thread* t = self();
  Worker* w = t->block->worker;
  for (;;) {
    w->launch->kernel->call(w->launch->args);
    thread_returned(t);
    if (__atomic_load_n(&state_of(w->launch)->stop, __ATOMIC_RELAXED)) give_up(w);
    unsigned slot = ((uintptr_t)t - (uintptr_t)w->pool->stacks) / stack_bytes;
    void* nowhere;
    if (!w->block.alive) {
      w->free_stacks[w->num_free++] = slot;
      emu_switch(&nowhere, w->scheduler);
    }
    if (!w->num_ready) report_deadlock(&w->block);
    unsigned i = pop_front(w);
    if (w->sp[i]) {
      w->free_stacks[w->num_free++] = slot;
      emu_switch(&nowhere, w->sp[i]);
    }
    t->tid = position(&w->block, i);
    t->index = i;
  }
}

static void run_block(Worker* w, uint64_t number) {
  Block* b = &w->block;
  unsigned n = b->num_threads;
  b->index = uint3{(unsigned)(number % b->grid.x), (unsigned)(number / b->grid.x % b->grid.y),
                   (unsigned)(number / ((uint64_t)b->grid.x * b->grid.y))};
  b->alive = n;
  b->waiting = 0;
  b->count = b->any = 0, b->all = 1;
  b->epoch = 0;
  w->head = w->num_ready = w->spins = 0;
  for (unsigned i = 0; i < n; i++) push_back(w, i);
  memset(w->sp, 0, n * sizeof w->sp[0]);
  for (unsigned i = 0; i < n; i += warp_lanes) {
    b->warps[i / warp_lanes].alive = n - i >= warp_lanes ? ~0u : (1u << (n - i)) - 1;
    b->warps[i / warp_lanes].num_groups = 0;
  }
  w->num_free = 0;
  for (unsigned i = n; i-- > 0;) w->free_stacks[w->num_free++] = i;
  memset(b->static_shared, 0xFF, b->static_bytes);
  memset(b->dynamic_shared, 0xFF, b->dynamic_bytes);
  if (hooks.block_start) hooks.block_start(b);
  unsigned first = pop_front(w);
  emu_switch(&w->scheduler, begin(w, first));
  if (hooks.block_end && !state_of(w->launch)->stop) hooks.block_end(b);
}

static void* work(void* argument) {
  Worker* w = (Worker*)argument;
  Launch* launch = w->launch;
  State* state = state_of(launch);
  use_signal_stack(w->signal_stack);
  w->block.worker = w;
  w->block.static_shared = find_thread_local((void*)work, &w->block.static_bytes);
  while (!__atomic_load_n(&state->stop, __ATOMIC_RELAXED)) {
    uint64_t number = __atomic_fetch_add(&state->next_block, 1, __ATOMIC_RELAXED);
    if (number >= state->num_blocks) break;
    run_block(w, number);
    __atomic_fetch_add(&launch->blocks_done, 1, __ATOMIC_RELAXED);
  }
  pthread_mutex_lock(&state->mutex);
  if (--state->running == 0) pthread_cond_signal(&state->finished);
  pthread_mutex_unlock(&state->mutex);
  return nullptr;
}

// A signal while a thread of a kernel runs: note where, and leave its stack for good.
void on_signal(int number, uintptr_t sp, uintptr_t pc, uintptr_t address) {
  Launch* launch = active;
  if (!launch) return;
  for (int i = 0; i < launch->num_workers; i++) {
    Worker* w = state_of(launch)->workers[i];
    uintptr_t start = (uintptr_t)w->pool->stacks, size = w->pool->count * stack_bytes;
    if (sp - start >= size) continue;
    Thread* t = record_of(sp);
    if (t->block != &w->block) t = nullptr;  // overwritten
    if (first_to_fail(launch)) {
      int kind = number == SIGFPE ? fault_arithmetic : number == SIGURG ? fault_interrupted
                 : number == SIGILL || number == SIGTRAP ? fault_trap : fault_memory;
      if (kind == fault_memory && address - start < size && (address - start) % stack_bytes < guard_bytes())
        kind = fault_stack;
      Site site = kind == fault_interrupted ? w->last_atomic : Site{nullptr, 0};
      fill_fault(launch, kind, t, site.file, site.line, pc, address);
      uintptr_t dynamic = (uintptr_t)w->block.dynamic_shared, end = (uintptr_t)w->dynamic_map + w->dynamic_map_bytes;
      if (kind == fault_memory && address >= dynamic && address < end)
        snprintf(launch->fault.text, sizeof launch->fault.text,
                 "an access out of bounds: byte %zu of dynamic shared memory, which has %zu (shared_mem=)",
                 (size_t)(address - dynamic), w->block.dynamic_bytes);
    }
    give_up(w);
  }
}

}  // namespace emu

using namespace emu;

extern "C" {

void emu_set_hooks(const Hooks* wanted) { hooks = *wanted; }

Launch* emu_current_launch(const Thread* t) { return t->block->worker->launch; }

void emu_fail(int kind, const char* file, int line, uint64_t pc, uint64_t address, const char* format, ...) {
  Thread* t = self();
  Launch* launch = t->block->worker->launch;
  if (first_to_fail(launch)) {
    fill_fault(launch, kind, t, file, line, pc, address);
    va_list list;
    va_start(list, format);
    vsnprintf(launch->fault.text, sizeof launch->fault.text, format, list);
    va_end(list);
  }
  give_up(t->block->worker);
}

void emu_barrier(const char* what, int predicate, const char* file, int line) {
  Thread* t = self();
  Block* b = t->block;
  if (b->waiting && (b->barrier.site.line != line || strcmp(b->barrier.site.file, file))) {
    uint3 other = position(b, b->barrier.mask);
    emu_fail(fault_barrier, file, line, 0, 0,
             "divergent barrier: this thread waits in %s on line %d, thread (%u,%u,%u) in %s on line %d", what, line,
             other.x, other.y, other.z, b->barrier.what, b->barrier.site.line);
  }
  if (!b->waiting) b->barrier = Wait{what, {file, line}, t->index, nullptr};  // mask: who came first
  b->wait[t->index] = Wait{what, {file, line}, 0, nullptr};
  b->count += predicate != 0, b->any |= predicate != 0, b->all &= predicate != 0;
  if (++b->waiting == b->alive) release_barrier(b);
  go_on(b->worker, t->index);
}

void emu_warp_meet(unsigned mask, void* payload, void (*finish)(void**, unsigned), const char* what, const char* file,
                   int line) {
  Thread* t = self();
  Block* b = t->block;
  unsigned lane = t->index % warp_lanes, warp_index = t->index / warp_lanes;
  Warp* warp = &b->warps[warp_index];
  if (!(mask >> lane & 1))
    emu_fail(fault_warp, file, line, 0, 0, "%s: the mask 0x%08x does not name the calling lane, %u", what, mask, lane);
  int g = 0;
  while (g < warp->num_groups && warp->groups[g].mask != mask) g++;
  if (g == warp->num_groups) warp->groups[warp->num_groups++] = Group{mask, 0, what, {file, line}};
  Group& group = warp->groups[g];
  if (group.what != what && strcmp(group.what, what))
    emu_fail(fault_warp, file, line, 0, 0,
             "lanes of one warp are in different warp functions: this one in %s on line %d, others in %s on line %d "
             "(mask 0x%08x)", what, line, group.what, group.site.line, mask);
  group.arrived |= 1u << lane;
  warp->payload[lane] = payload;
  if (group.arrived == (mask & warp->alive)) {
    finish_group(b, warp_index, g, finish, 1u << lane);
    return;
  }
  b->wait[t->index] = Wait{what, {file, line}, mask, finish};
  go_on(b->worker, t->index);
}

void emu_yield() {
  Thread* t = self();
  Worker* w = t->block->worker;
  push_back(w, t->index);
  go_on(w, t->index);
}

void emu_spin(const char* file, int line) {
  Worker* w = self()->block->worker;
  w->last_atomic = Site{file, line};
  if (++w->spins > 256) emu_yield();
}

static AsyncCopies* copies_of(Thread* t) {
  Worker* w = t->block->worker;
  if (!w->copies) w->copies = (AsyncCopies*)map_memory(max_threads * sizeof(AsyncCopies));
  return &w->copies[t->index];
}

void emu_copy_async(void* to, const void* from, unsigned bytes, unsigned from_bytes, const char* file, int line) {
  Thread* t = self();
  if (hooks.copy_start) hooks.copy_start(t, to, bytes, {file, line});
  AsyncCopies* list = copies_of(t);
  if (list->count == sizeof list->copies / sizeof list->copies[0]) complete_copies(t, list->copies[0].group + 1);
  if (list->count == sizeof list->copies / sizeof list->copies[0]) complete_copies(t, ~0u);
  list->copies[list->count++] = AsyncCopy{to, from, bytes, from_bytes, list->group, {file, line}};
}

void emu_copy_commit() { copies_of(self())->group++; }

void emu_copy_wait(int groups) {
  Thread* t = self();
  AsyncCopies* list = copies_of(t);
  if (list->group >= (unsigned)groups) complete_copies(t, list->group - groups);
}

int emu_printf(const char* format, ...) {
  Launch* launch = self()->block->worker->launch;
  char line[1024];
  va_list list;
  va_start(list, format);
  int n = vsnprintf(line, sizeof line, format, list);
  va_end(list);
  if (n < 0) return n;
  if (n >= (int)sizeof line) n = sizeof line - 1;
  uint64_t used = __atomic_load_n(&launch->print_used, __ATOMIC_RELAXED);
  do {
    if (used + n > launch->print_capacity) {
      __atomic_fetch_add(&launch->print_dropped, 1, __ATOMIC_RELAXED);
      return n;
    }
  } while (!__atomic_compare_exchange_n(&launch->print_used, &used, used + n, true, __ATOMIC_RELAXED, __ATOMIC_RELAXED));
  memcpy(launch->print + used, line, n);
  return n;
}

// ---- called by Python ----

#define PUBLIC __attribute__((visibility("default")))

PUBLIC uint64_t emu_static_shared_bytes() {
  size_t bytes;
  find_thread_local((void*)work, &bytes);
  return bytes;
}

// Starts the workers; returns 0, or what there was too little of.
PUBLIC const char* emu_start(Launch* launch) {
  State* state = (State*)calloc(1, sizeof(State));
  launch->state = state;
  state->num_blocks = (uint64_t)launch->grid[0] * launch->grid[1] * launch->grid[2];
  state->workers = (Worker**)calloc(launch->num_workers, sizeof(Worker*));
  state->running = launch->num_workers;
  pthread_mutex_init(&state->mutex, nullptr);
  pthread_cond_init(&state->finished, nullptr);
  unsigned threads = launch->block[0] * launch->block[1] * launch->block[2];
  for (int i = 0; i < launch->num_workers; i++) {
    Worker* w = state->workers[i] = (Worker*)calloc(1, sizeof(Worker));
    w->launch = launch;
    w->pool = &launch->pools[i];
    if (!grow_pool(w->pool, threads)) return "memory for the stacks of the threads";
    w->signal_stack = map_memory(signal_stack_bytes);
    // Dynamic shared memory ends at a page that can't be touched, so that an overrun is caught.
    size_t page = guard_bytes(), bytes = (launch->shared_bytes + 15) / 16 * 16;
    w->dynamic_map_bytes = (bytes + page - 1) / page * page + page;
    w->dynamic_map = map_memory(w->dynamic_map_bytes);
    if (!w->signal_stack || !w->dynamic_map) return "memory for shared memory";
    mprotect(w->dynamic_map + w->dynamic_map_bytes - page, page, PROT_NONE);
    w->block.dynamic_shared = w->dynamic_map + w->dynamic_map_bytes - page - bytes;
    w->block.dynamic_bytes = launch->shared_bytes;
    w->block.dim = dim3(launch->block[0], launch->block[1], launch->block[2]);
    w->block.grid = dim3(launch->grid[0], launch->grid[1], launch->grid[2]);
    w->block.num_threads = threads;
  }
  active = launch;
  install_handlers(&state->handlers);
  if (hooks.launch_start) hooks.launch_start(launch);
  for (int i = 0; i < launch->num_workers; i++)
    if (start_thread(&state->workers[i]->thread, work, state->workers[i])) {
      pthread_mutex_lock(&state->mutex);
      state->running--;
      pthread_mutex_unlock(&state->mutex);
      state->workers[i]->thread = 0;
      if (i == 0) return "OS threads";
    }
  return nullptr;
}

// Waits for at most so many milliseconds; returns whether the launch has ended.
PUBLIC int emu_wait(Launch* launch, int milliseconds) {
  State* state = state_of(launch);
  timespec until;
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += milliseconds / 1000;
  until.tv_nsec += milliseconds % 1000 * 1000000l;
  if (until.tv_nsec >= 1000000000l) until.tv_sec++, until.tv_nsec -= 1000000000l;
  pthread_mutex_lock(&state->mutex);
  while (state->running && pthread_cond_timedwait(&state->finished, &state->mutex, &until) == 0) {
  }
  int ended = state->running == 0;
  pthread_mutex_unlock(&state->mutex);
  return ended;
}

// Stops a launch that does not end by itself: a thread in an endless loop is taken off its stack by a signal.
PUBLIC void emu_interrupt(Launch* launch) {
  State* state = state_of(launch);
  __atomic_store_n(&state->stop, 1, __ATOMIC_RELAXED);
  for (int i = 0; i < launch->num_workers; i++)
    if (state->workers[i]->thread) pthread_kill(state->workers[i]->thread, SIGURG);
}

PUBLIC void emu_finish(Launch* launch) {
  State* state = state_of(launch);
  for (int i = 0; i < launch->num_workers; i++)
    if (state->workers[i] && state->workers[i]->thread) pthread_join(state->workers[i]->thread, nullptr);
  if (active) {
    if (hooks.launch_end) hooks.launch_end(launch);
    restore_handlers(&state->handlers);
    active = nullptr;
  }
  for (int i = 0; i < launch->num_workers; i++) {
    Worker* w = state->workers[i];
    if (!w) continue;
    if (w->copies) munmap(w->copies, max_threads * sizeof(AsyncCopies));
    if (w->signal_stack) munmap(w->signal_stack, signal_stack_bytes);
    if (w->dynamic_map) munmap(w->dynamic_map, w->dynamic_map_bytes);
    free(w);
  }
  pthread_mutex_destroy(&state->mutex);
  pthread_cond_destroy(&state->finished);
  free(state->workers);
  free(state);
  launch->state = nullptr;
}

}  // extern "C"
