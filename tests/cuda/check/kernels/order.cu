// An interpreter of little programs, for test_check_order.py: 64 threads of two warps read, write and meet.
// program [steps, 4]: what, cell, the lanes of warp 0, the lanes of warp 1.
enum { WRITE, READ, SYNCWARP, SYNCTHREADS };

extern "C" __global__ void interpret(int* out, const int* program, int steps) {
  __shared__ int cells[4];
  if (threadIdx.x == 0)
    for (int c = 0; c < 4; c++) cells[c] = 0;
  __syncthreads();
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32, sum = 0;
  for (int s = 0; s < steps; s++) {
    int what = program[4 * s], cell = program[4 * s + 1];
    unsigned lanes = program[4 * s + 2 + warp];
    if (what == SYNCTHREADS) __syncthreads();
    if (what == SYNCTHREADS || !(lanes >> lane & 1)) continue;
    if (what == WRITE) cells[cell] = 1000 * s + threadIdx.x;
    if (what == READ) sum += cells[cell];
    if (what == SYNCWARP) __syncwarp(lanes);
  }
  out[threadIdx.x] = sum;
}
