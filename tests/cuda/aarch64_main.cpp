// Launches kernels/aarch64.cu without Python, for a run under qemu-user. Prints what went wrong, or "right".
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emu.h"

extern "C" {
extern const emu::Kernel tinyvllm_kernel_0, tinyvllm_kernel_1, tinyvllm_kernel_2;
const char* emu_start(emu::Launch*);
int emu_wait(emu::Launch*, int);
void emu_finish(emu::Launch*);
}

static emu::Pool pools[2];

static emu::Fault run(const emu::Kernel* kernel, unsigned blocks, unsigned threads, void** args, size_t shared) {
  emu::Launch launch;
  memset(&launch, 0, sizeof launch);
  launch.grid[0] = blocks, launch.block[0] = threads;
  launch.grid[1] = launch.grid[2] = launch.block[1] = launch.block[2] = 1;
  launch.shared_bytes = shared;
  launch.args = args;
  launch.kernel = kernel;
  launch.num_workers = blocks < 2 ? 1 : 2;
  launch.pools = pools;
  if (const char* missing = emu_start(&launch)) printf("no %s\n", missing), exit(1);
  while (!emu_wait(&launch, 1000)) {
  }
  emu_finish(&launch);
  return launch.fault;
}

int main() {
  float out[4 * 128];
  unsigned short x[128];
  for (int i = 0; i < 128; i++) {
    float v = i;
    unsigned bits;
    memcpy(&bits, &v, 4);
    x[i] = bits >> 16;  // whole numbers below 256 are exact
  }
  float* out_pointer = out;
  unsigned short* x_pointer = x;
  int n = 128;
  void* args[] = {&out_pointer, &x_pointer, &n};
  emu::Fault fault = run(&tinyvllm_kernel_0, 4, 128, args, 512);
  if (fault.kind) return printf("fault: %s\n", fault.text), 1;
  for (int i = 0; i < 4 * 128; i++) {
    float expected = 0;
    if (i % 32 == 0)
      for (int l = 0; l < 32; l++) expected += 127 - (i % 128 + l);
    if (out[i] != expected) return printf("out[%d] is %g, not %g\n", i, out[i], expected), 1;
  }
  float* null = nullptr;
  void* null_args[] = {&null};
  fault = run(&tinyvllm_kernel_1, 1, 1, null_args, 0);
  if (fault.kind != emu::fault_memory || fault.address != 0) return printf("no fault, but %d\n", fault.kind), 1;
  fault = run(&tinyvllm_kernel_2, 1, 64, nullptr, 0);
  if (fault.kind != emu::fault_deadlock) return printf("no deadlock, but %d\n", fault.kind), 1;
  printf("right\n");
}
