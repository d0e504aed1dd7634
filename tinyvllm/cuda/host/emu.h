// The emulator's runtime, as kernels and the instrumented modes see it.
//
// A CUDA thread is a fiber: a stack of its own, and a switch that costs a few nanoseconds. A block stays on one
// worker (an OS thread); workers take blocks from a counter. A thread finds its record from its stack pointer,
// because stacks are aligned to their size. Nothing here is thread_local: a module's thread-local storage holds
// exactly its __shared__ variables, which the runtime fills with 0xFF (NaN) before every block.
#pragma once
#include <stddef.h>
#include <stdint.h>

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  constexpr dim3(uint3 v) : x(v.x), y(v.y), z(v.z) {}
  constexpr operator uint3() const { return uint3{x, y, z}; }
};

// What instrumented code may not be slowed or judged by: the emulator's own functions.
#ifdef TINYVLLM_INSTRUMENT
#ifdef __clang__
#define EMU_OWN __attribute__((noinline, no_sanitize("thread", "coverage")))
#else
#define EMU_OWN __attribute__((noinline, no_sanitize("thread"), no_sanitize_coverage))
#endif
#define EMU_HOOK(pointer, bytes, kind) emu::on_access(pointer, bytes, kind, line, file)
#else
#define EMU_OWN inline __attribute__((always_inline))
#define EMU_HOOK(pointer, bytes, kind) ((void)line, (void)file)
#endif
// The place in the .cu that calls an intrinsic: default arguments see the caller's line.
#define EMU_SITE int line = __builtin_LINE(), const char* file = __builtin_FILE()

namespace emu {

constexpr size_t stack_bytes = 128 * 1024;  // of address space; only touched pages cost memory
constexpr unsigned max_threads = 1024, warp_lanes = 32;

struct Site {
  const char* file;
  int line;
};

struct Block;
struct Worker;

struct Thread {  // lies at the top of its stack
  uint3 tid;
  unsigned index;  // tid.x + dim.x * (tid.y + dim.y * tid.z)
  Block* block;
};

struct Wait {  // where a thread is parked, for the report of a deadlock
  const char* what;
  Site site;
  unsigned mask;  // of a warp function, 0 in a block barrier
  void (*finish)(void** lanes, unsigned arrived);
};

struct Group {  // lanes that meet in one warp function
  unsigned mask, arrived;
  const char* what;
  Site site;
};

struct Warp {
  unsigned alive;  // lanes that have not returned
  int num_groups;
  Group groups[warp_lanes];
  void* payload[warp_lanes];
};

struct Block {
  uint3 index;
  dim3 dim, grid;
  unsigned num_threads, alive, waiting;  // waiting: at the block barrier
  Wait barrier;                          // of the first thread that reached it
  int count, any, all;                   // what __syncthreads_count/or/and gather
  int result_count, result_any, result_all;
  char* dynamic_shared;
  size_t dynamic_bytes;
  char* static_shared;  // this worker's copy of the module's __shared__ variables
  size_t static_bytes;
  Worker* worker;
  uint64_t epoch;  // barriers passed in this block: what orders shared memory accesses
  Wait wait[max_threads];
  Warp warps[max_threads / warp_lanes];
};

struct Array {  // one array argument, filled in by Python
  const char* name;
  char* begin;
  uint64_t bytes;
  uint32_t element_bytes, writable;
};

struct Kernel {  // see entry.h
  void (*call)(void** args);
  const void* signature;
};

enum FaultKind {
  fault_none, fault_memory, fault_stack, fault_arithmetic, fault_barrier, fault_warp, fault_deadlock, fault_assert,
  fault_interrupted, fault_trap, fault_check  // fault_check: raised by an instrumented mode
};

struct Fault {  // read by Python
  int32_t kind, line;
  unsigned block[3], thread[3];
  const char* file;
  uint64_t pc, address;  // 0 where they mean nothing
  char text[1500];
};

struct Pool {  // the stacks of one worker, kept by Python between launches
  char* stacks;
  uint64_t count;
};

struct Launch {  // shared with Python (emulator.py): keep both in step
  unsigned grid[3], block[3];
  uint64_t shared_bytes;
  void** args;
  const Kernel* kernel;
  const Array* arrays;
  int32_t num_arrays, num_workers;
  Pool* pools;
  char* print;
  uint64_t print_capacity, print_used, print_dropped;
  uint64_t blocks_done;
  void* mode_data;  // for an instrumented mode
  Fault fault;
  void* state;  // the runtime's
};

// What an instrumented mode may want to know. Set from a constructor: emu::set_hooks(...).
struct Hooks {
  void (*launch_start)(Launch*);
  void (*launch_end)(Launch*);
  void (*block_start)(Block*);              // shared memory is already poisoned
  void (*block_end)(Block*);                // every thread returned
  void (*barrier)(Block*);                  // all threads have arrived, none has gone on
  void (*warp_meet)(Block*, unsigned warp, unsigned lanes, const char* what, Site);  // likewise for lanes
  void (*thread_exit)(Thread*);
  void (*copy_done)(Thread*, void* to, unsigned bytes, Site);  // an async copy is about to write shared memory
  void (*copy_start)(Thread*, void* to, unsigned bytes, Site);  // from here on it may
};

}  // namespace emu

extern "C" {
#pragma GCC visibility push(hidden)
void emu_set_hooks(const emu::Hooks*);
emu::Launch* emu_current_launch(const emu::Thread*);
void emu_barrier(const char* what, int predicate, const char* file, int line);
void emu_warp_meet(unsigned mask, void* payload, void (*finish)(void** lanes, unsigned arrived), const char* what,
                   const char* file, int line);
void emu_yield();
// Called by atomics: lets others run now and then, so that waiting for a flag ends.
void emu_spin(const char* file, int line);
// cp.async: the copy is made when it is waited for, so that a missing wait reads old data.
void emu_copy_async(void* to, const void* from, unsigned bytes, unsigned from_bytes, const char* file, int line);
void emu_copy_commit();
void emu_copy_wait(int groups);
int emu_printf(const char* format, ...) __attribute__((format(printf, 1, 2)));
[[noreturn]] void emu_fail(int kind, const char* file, int line, uint64_t pc, uint64_t address, const char* format, ...)
    __attribute__((format(printf, 6, 7)));
#pragma GCC visibility pop
}

namespace emu {

#if defined(__x86_64__)
inline __attribute__((always_inline)) uintptr_t stack_pointer() {
  uintptr_t sp;
  asm("mov %%rsp, %0" : "=r"(sp));  // not volatile: one thread's value may be kept
  return sp;
}
#elif defined(__aarch64__)
inline __attribute__((always_inline)) uintptr_t stack_pointer() {
  uintptr_t sp;
  asm("mov %0, sp" : "=r"(sp));
  return sp;
}
#else
#error "the emulator runs on x86-64 and aarch64"
#endif

// Records start at different offsets in different stacks: with all of them at the same one, 64 KB apart, they
// would share a few cache sets.
inline __attribute__((always_inline)) Thread* record_of(uintptr_t stack) {
  uintptr_t base = stack & ~(uintptr_t)(stack_bytes - 1);
  return (Thread*)(base + stack_bytes - 256 - ((base / stack_bytes) & 127) * 256);
}
inline __attribute__((always_inline)) Thread* self() { return record_of(stack_pointer()); }
inline __attribute__((always_inline)) unsigned lane() { return self()->index % warp_lanes; }

#ifdef TINYVLLM_INSTRUMENT
enum AccessKind { access_read, access_write, access_atomic };
// Called before memory is touched by the emulator's own functions (atomics, streaming loads, async copies);
// plain loads and stores of a kernel arrive as __tsan_* calls. Defined by the mode's own object.
extern "C" void emu_on_access(const volatile void*, size_t bytes, int kind, int line, const char* file);
inline __attribute__((always_inline)) void on_access(const volatile void* p, size_t bytes, int kind, int line,
                                                     const char* file) {
  emu_on_access(p, bytes, kind, line, file);
}
#endif

}  // namespace emu
