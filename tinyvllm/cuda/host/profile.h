// Profile mode: what its two halves share. profile.cpp writes down what every thread does, profile_warp.cpp replays
// the 32 threads of a warp together, as a GPU would have run them, and counts.
#pragma once
#include "emu.h"

namespace profile {

enum Kind : uint8_t {  // keep in step with profile.py
  kind_load, kind_store, kind_atomic, kind_copy,  // copy: an async copy's write to shared memory
  kind_block,                                     // a basic block begins
  kind_condition,                                 // a comparison, perhaps a branch's
  kind_barrier, kind_warp, kind_enter, kind_leave
};

struct Traffic {
  uint64_t requests, threads, bytes_asked;
  uint64_t units;  // global: sectors moved; shared: wavefronts
  uint64_t ideal;  // the fewest units in which these bytes can move
};

struct Place {  // one place in the program; read by Python
  uint64_t pc;  // a return address, 0 where file and line say it
  const char* file;
  int32_t line;
  uint8_t kind, bytes, pad[2];  // bytes of a warp function: 1 if it is an mma
  uint64_t warps, threads;  // how often it was passed
  uint64_t divergent;       // conditions: how often lanes that came together went apart
  Traffic global, shared;
};

struct Range {  // global memory: an array, or a __device__ variable
  uint64_t begin, end;
  uint64_t shift;  // what to subtract so that it begins where a GPU's allocation would
};

struct Data {  // launch->mode_data, filled in by Python
  uint64_t text, text_bytes;  // where the program's code lies
  Place* places;
  uint64_t num_places, max_places;
  const Range* ranges;
  uint64_t num_ranges;
  const Range* guards;  // in static shared memory: bytes of the host's compiler that a GPU doesn't have
  uint64_t num_guards;
  uint64_t max_events;  // of memory for traces
};

// An event is a site's number in the upper 16 bits and an address in the lower 48.
inline uint64_t event(unsigned site, uint64_t address) { return (uint64_t)site << 48 | (address & 0xFFFFFFFFFFFFull); }
inline unsigned site_of(uint64_t event) { return event >> 48; }
inline uint64_t address_of(uint64_t event) { return event & 0xFFFFFFFFFFFFull; }

constexpr int max_depth = 48;  // of calls that were not inlined

struct Lane {  // one thread
  uint64_t* events;
  size_t count, capacity, next;  // next: of the replay
  uint64_t pc[max_depth + 1];    // the basic block it is in, for every function entered
  int depth;
  unsigned condition;  // the last comparison in this basic block, 0: none
};

#pragma GCC visibility push(hidden)
// Replays what up to 32 lanes did since the last call, and empties their traces.
void replay_warp(Data*, const emu::Block*, Lane* lanes, unsigned num_lanes);
#pragma GCC visibility pop

}  // namespace profile
