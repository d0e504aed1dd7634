// Check mode's structures that Python reads and fills (../check.py): keep both in step.
#pragma once
#include "emu.h"

namespace emu::check {

enum Access : uint8_t { reading, writing, changing, polling, signalling };  // plain, plain, atomic, strong read, strong write
enum Space { in_array, in_static_shared, in_dynamic_shared, in_module, nowhere, declared };
enum Kind { no_fault, bounds, race, uninitialised, misaligned, not_waited };

// A place in the program: an address relative to the library's start, or a line of the .cu with the top bit set.
using Site32 = uint32_t;
constexpr Site32 is_line = 0x80000000u;

struct Variable {  // a __shared__ variable: bytes in the module's thread-local storage
  uint64_t offset, bytes;
};

struct Region {  // memory that arrays lie in; tracked: races are looked for
  uint64_t begin, bytes;
  int32_t tracked, unit;  // unit: bytes of the smallest element, 4 at most
};

struct Report {
  int32_t kind, access, space, item;  // item: which array or variable, -1: none
  uint32_t bytes, run, thread;        // run: number of the block, from 1
  Site32 site;
  int64_t offset;  // of the access in the item, in bytes
  // The earlier access of a race.
  uint32_t other_access, other_run, other_thread;
  Site32 other_site;
  // An index out of a declared array, as -fsanitize=bounds tells it.
  int64_t index;
  const char* file;
  uint32_t line, column;
  char type[128];
  Site32 last_site;  // of the latest access: where an endless loop is
  uint32_t first_write;  // of a race: nobody had written there when the other thread read
};

struct Data {
  const Variable* variables;
  const Region* regions;
  uint64_t base, image_end;  // the loaded library
  int32_t num_variables, num_guards, num_regions, instrumented;  // guards: the compiler's own, behind the variables
  Report report;
  Report unwritten;  // the first read of unwritten shared memory, until it is known whether somebody writes there
};

// Memory from the system: a launch can be taken off its stack at any time, which must not happen inside malloc.
char* reserve(size_t bytes);
void release(void* memory, size_t bytes);

}  // namespace emu::check
