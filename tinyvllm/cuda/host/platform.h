// What the runtime needs of the operating system: memory, signals, and the place of the __shared__ variables.
// Linux; macOS is written for and untested (there shared memory is not filled before a block).
#pragma once
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>
#ifdef __linux__
#include <link.h>
#include <ucontext.h>
#else
#include <sys/ucontext.h>
#endif

#include "emu.h"

namespace emu {

void on_signal(int number, uintptr_t sp, uintptr_t pc, uintptr_t address);  // returns if the signal is not ours

constexpr size_t signal_stack_bytes = 128 * 1024;

static size_t guard_bytes() {
  static size_t page = 0;
  if (!page) page = sysconf(_SC_PAGESIZE);
  return page;
}

static char* map_memory(size_t bytes) {
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return p == MAP_FAILED ? nullptr : (char*)p;
}

// A pool of at least `count` stacks, each aligned to its size, the lowest page of each out of bounds.
static bool grow_pool(Pool* pool, uint64_t count) {
  if (pool->count >= count) return true;
  if (pool->stacks) munmap(pool->stacks, pool->count * stack_bytes);
  pool->stacks = nullptr, pool->count = 0;
  char* raw = map_memory((count + 1) * stack_bytes);
  if (!raw) return false;
  char* aligned = (char*)(((uintptr_t)raw + stack_bytes - 1) & ~(uintptr_t)(stack_bytes - 1));
  if (aligned > raw) munmap(raw, aligned - raw);
  size_t tail = raw + stack_bytes - aligned;
  if (tail) munmap(aligned + count * stack_bytes, tail);
  for (uint64_t i = 0; i < count; i++) mprotect(aligned + i * stack_bytes, guard_bytes(), PROT_NONE);
  pool->stacks = aligned, pool->count = count;
  return true;
}

// ---- signals ----

static const int caught[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGURG};
constexpr int num_caught = sizeof caught / sizeof caught[0];

struct SignalHandlers {
  struct sigaction before[num_caught];
};
static SignalHandlers* installed;

static void handle(int number, siginfo_t* info, void* context) {
  ucontext_t* u = (ucontext_t*)context;
#if defined(__linux__) && defined(__x86_64__)
  uintptr_t sp = u->uc_mcontext.gregs[REG_RSP], pc = u->uc_mcontext.gregs[REG_RIP];
#elif defined(__linux__)
  uintptr_t sp = u->uc_mcontext.sp, pc = u->uc_mcontext.pc;
#elif defined(__x86_64__)
  uintptr_t sp = u->uc_mcontext->__ss.__rsp, pc = u->uc_mcontext->__ss.__rip;
#else
  uintptr_t sp = u->uc_mcontext->__ss.__sp, pc = u->uc_mcontext->__ss.__pc;
#endif
  on_signal(number, sp, pc, (uintptr_t)info->si_addr);
  // Not a kernel's: let whoever was there before have it when the instruction runs again.
  if (number == SIGURG) return;
  for (int i = 0; i < num_caught; i++)
    if (caught[i] == number) sigaction(number, &installed->before[i], nullptr);
}

static void install_handlers(SignalHandlers* handlers) {
  installed = handlers;
  struct sigaction action;
  memset(&action, 0, sizeof action);
  action.sa_sigaction = handle;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;  // we leave the handler by a switch
  for (int i = 0; i < num_caught; i++) sigaction(caught[i], &action, &handlers->before[i]);
}

static void restore_handlers(SignalHandlers* handlers) {
  for (int i = 0; i < num_caught; i++) sigaction(caught[i], &handlers->before[i], nullptr);
}

static void use_signal_stack(char* memory) {
  stack_t stack;
  memset(&stack, 0, sizeof stack);
  stack.ss_sp = memory;
  stack.ss_size = signal_stack_bytes;
  sigaltstack(&stack, nullptr);
}

// A thread that leaves all other signals (Ctrl-C) to Python's.
static int start_thread(pthread_t* thread, void* (*work)(void*), void* argument) {
  sigset_t wanted, before;
  sigfillset(&wanted);
  for (int i = 0; i < num_caught; i++) sigdelset(&wanted, caught[i]);
  pthread_sigmask(SIG_SETMASK, &wanted, &before);
  int error = pthread_create(thread, nullptr, work, argument);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error;
}

// ---- this thread's copy of the __shared__ variables of the module that holds `inside` ----

#ifdef __linux__
struct TlsIndex {
  unsigned long module, offset;
};
extern "C" void* __tls_get_addr(TlsIndex*);

struct TlsSearch {
  uintptr_t inside;
  char* begin;
  size_t bytes;
};

static int look_for_tls(dl_phdr_info* info, size_t, void* data) {
  TlsSearch* search = (TlsSearch*)data;
  bool ours = false;
  size_t bytes = 0;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const auto& header = info->dlpi_phdr[i];
    if (header.p_type == PT_LOAD && search->inside - (info->dlpi_addr + header.p_vaddr) < header.p_memsz) ours = true;
    if (header.p_type == PT_TLS) bytes = header.p_memsz;
  }
  if (!ours) return 0;
  if (bytes) {
    TlsIndex index = {info->dlpi_tls_modid, 0};
    search->begin = (char*)__tls_get_addr(&index);
    search->bytes = bytes;
  }
  return 1;
}

static char* find_thread_local(void* inside, size_t* bytes) {
  TlsSearch search = {(uintptr_t)inside, nullptr, 0};
  dl_iterate_phdr(look_for_tls, &search);
  *bytes = search.bytes;
  return search.begin;
}
#else
static char* find_thread_local(void*, size_t* bytes) {
  *bytes = 0;
  return nullptr;
}
#endif

}  // namespace emu
