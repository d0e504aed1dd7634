// The switch from one stack to another: saves what the ABI wants kept, swaps stack pointers, and jumps.
// A jump through a register, no `ret`: the CPU's return predictor would be wrong every time.
#pragma once

// emu_switch(&from, to): park the caller's stack pointer in from, go on at to.
extern "C" void emu_switch(void** from, void* to) asm("emu_switch");

#ifdef __ELF__
asm(".hidden emu_switch");
#endif

#if defined(__x86_64__)
asm(R"(
.text
.p2align 4
.globl emu_switch
emu_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    popq %rcx
    jmpq *%rcx
)");

// What a fresh stack must hold so that a switch to the result enters `entry`.
static inline void* emu_fresh_stack(char* top, void (*entry)()) {
  void** sp = (void**)((unsigned long)top & ~15ul);
  *--sp = 0;  // a function is entered with sp = 8 mod 16, as after a call
  *--sp = (void*)entry;
  for (int i = 0; i < 6; i++) *--sp = 0;
  return sp;
}
#elif defined(__aarch64__)
asm(R"(
.text
.p2align 4
.globl emu_switch
emu_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    br x30
)");

static inline void* emu_fresh_stack(char* top, void (*entry)()) {
  void** sp = (void**)((unsigned long)top & ~15ul) - 20;
  for (int i = 0; i < 20; i++) sp[i] = 0;
  sp[11] = (void*)entry;
  return sp;
}
#endif
