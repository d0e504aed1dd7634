// Profile mode, second half: replays the traces of a warp's threads together, as one instruction stream.
//
// A GPU issues one instruction for all lanes that stand at it. Which lanes those are follows from the traces: always
// the deepest call goes on first, and of those in it the lowest basic block (compilers lay code out in order, so
// whoever branched past a block waits behind it, and all meet again where their paths do). This is how GPUs without a
// reconvergence stack do it: Diamos et al., "SIMD re-convergence at thread frontiers", MICRO 2011.
#include "profile.h"

using namespace emu;
using namespace profile;

namespace {

struct Warp32 {
  Data* data;
  const Block* block;
  Lane* lanes;
  unsigned num_lanes;

  Kind kind_of(const Lane& lane) const { return (Kind)data->places[site_of(lane.events[lane.next])].kind; }
};

bool ended(const Lane& lane) { return lane.next == lane.count; }

#define FOR_LANES(l, mask) for (unsigned l##_left = (mask), l; l##_left && (l = __builtin_ctz(l##_left), true); l##_left &= l##_left - 1)

// ---- memory: what one request costs ----

unsigned insert(uint64_t* sorted, unsigned n, uint64_t value) {  // into a set; returns its size
  unsigned i = n;
  while (i && sorted[i - 1] > value) i--;
  if (i && sorted[i - 1] == value) return n;
  for (unsigned j = n; j > i; j--) sorted[j] = sorted[j - 1];
  sorted[i] = value;
  return n + 1;
}

// The distinct 32-byte sectors that the lanes touch.
unsigned sectors(const uint64_t* address, unsigned mask, unsigned bytes) {
  uint64_t set[2 * warp_lanes];
  unsigned n = 0;
  FOR_LANES(l, mask) {
    n = insert(set, n, address[l] / 32);
    n = insert(set, n, (address[l] + bytes - 1) / 32);
  }
  return n;
}

unsigned distinct(const uint64_t* address, unsigned mask) {
  uint64_t set[warp_lanes];
  unsigned n = 0;
  FOR_LANES(l, mask) n = insert(set, n, address[l]);
  return n;
}

bool pairs_agree(const uint64_t* address, unsigned mask, unsigned step) {
  FOR_LANES(l, mask) if (mask >> (l ^ step) & 1 && address[l] != address[l ^ step]) return false;
  return true;
}

// Shared memory delivers one 4-byte word from each of 32 banks at a time; one word may go to many lanes. Accesses of 8
// bytes go by half warps, of 16 by quarters; loads in which neighbours (l and l ^ 1, or l and l ^ 2) want the same go
// two parts at a time.
void wavefronts(const uint64_t* address, unsigned mask, unsigned bytes, bool load, unsigned* needed, unsigned* ideal) {
  unsigned part = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
  if (part < 32 && load && (pairs_agree(address, mask, 1) || pairs_agree(address, mask, 2))) part *= 2;
  for (unsigned first = 0; first < warp_lanes; first += part) {
    unsigned lanes = part == 32 ? mask : mask & ((1u << part) - 1) << first;
    if (!lanes) continue;
    uint64_t words[4 * warp_lanes];
    unsigned n = 0, in_bank[32] = {}, most = 0;
    FOR_LANES(l, lanes) {
      for (uint64_t w = address[l] / 4; w <= (address[l] + bytes - 1) / 4; w++) n = insert(words, n, w);
    }
    for (unsigned i = 0; i < n; i++) {
      unsigned count = ++in_bank[words[i] % 32];
      if (count > most) most = count;
    }
    *needed += most;
    *ideal += 1;
  }
}

bool in_shared(const Data* data, const Block* b, uint64_t a) {
  uint64_t offset = a - (uint64_t)b->static_shared;
  if (offset >= b->static_bytes) return a - (uint64_t)b->dynamic_shared < b->dynamic_bytes;
  for (uint64_t i = 0; i < data->num_guards; i++)
    if (offset >= data->guards[i].begin && offset < data->guards[i].end) return false;
  return true;
}

const Range* in_global(const Data* data, uint64_t a) {
  for (uint64_t i = 0; i < data->num_ranges; i++)
    if (a >= data->ranges[i].begin && a < data->ranges[i].end) return &data->ranges[i];
  return nullptr;  // a constant, or out of bounds: then the access itself has failed
}

void count_access(const Warp32& w, Place* s, unsigned lanes) {
  uint64_t address[warp_lanes];
  unsigned global = 0, shared = 0, bytes = s->bytes;
  FOR_LANES(l, lanes) {
    address[l] = address_of(w.lanes[l].events[w.lanes[l].next]);
    if (in_shared(w.data, w.block, address[l])) {
      shared |= 1u << l;
    } else if (const Range* r = in_global(w.data, address[l])) {
      address[l] -= r->shift;
      global |= 1u << l;
    }
  }
  if (global) {
    unsigned asked = distinct(address, global) * bytes;
    s->global.requests++;
    s->global.threads += __builtin_popcount(global);
    s->global.bytes_asked += asked;
    s->global.units += sectors(address, global, bytes);
    s->global.ideal += (asked + 31) / 32;
  }
  if (shared) {
    unsigned needed = 0, ideal = 0;
    wavefronts(address, shared, bytes, s->kind == kind_load, &needed, &ideal);
    s->shared.requests++;
    s->shared.threads += __builtin_popcount(shared);
    s->shared.bytes_asked += distinct(address, shared) * bytes;
    s->shared.units += needed;
    s->shared.ideal += ideal;
  }
}

// ---- control flow ----

// The next instruction of lanes that stand in one basic block. Mostly all are at the same one. Where they are not (a
// copy that only some lanes make), one that nobody else has still before him may go first.
unsigned next_site(const Warp32& w, unsigned lanes) {
  unsigned first = site_of(w.lanes[__builtin_ctz(lanes)].events[w.lanes[__builtin_ctz(lanes)].next]);
  FOR_LANES(l, lanes) {
    unsigned s = site_of(w.lanes[l].events[w.lanes[l].next]);
    bool wanted_later = false;
    FOR_LANES(o, lanes) {
      const Lane& other = w.lanes[o];
      if (site_of(other.events[other.next]) == s) continue;
      for (size_t i = other.next; i < other.count && !wanted_later; i++) {
        unsigned later = site_of(other.events[i]);
        uint8_t kind = w.data->places[later].kind;
        if (kind == kind_block || kind == kind_enter || kind == kind_leave) break;
        wanted_later = later == s;
      }
    }
    if (!wanted_later) return s;
  }
  return first;
}

// All of `lanes` have finished their basic block and know the next one.
void branch(const Warp32& w, unsigned lanes) {
  uint64_t to = 0;
  bool apart = false;
  unsigned condition = 0;
  FOR_LANES(l, lanes) {
    Lane& lane = w.lanes[l];
    Place* s = &w.data->places[site_of(lane.events[lane.next++])];
    if (to && s->pc != to) apart = true;
    to = s->pc;
    s->threads++;
    lane.pc[lane.depth] = s->pc;
    if (lane.condition) condition = lane.condition;
    lane.condition = 0;
  }
  if (!condition) return;
  w.data->places[condition].warps++;
  w.data->places[condition].threads += __builtin_popcount(lanes);
  w.data->places[condition].divergent += apart;
}

void enter(Lane& lane) {
  lane.next++;
  if (lane.depth < max_depth) lane.depth++;
  lane.pc[lane.depth] = 0;
}
void leave(Lane& lane) {
  lane.next++;
  if (lane.depth) lane.depth--;
}

// Runs `lanes`, which stand in the same basic block, until they leave it or call a function.
void run_together(const Warp32& w, unsigned lanes) {
  for (;;) {
    unsigned entering = 0, leaving = 0, branching = 0, working = 0;
    FOR_LANES(l, lanes) {
      if (ended(w.lanes[l])) continue;
      Kind kind = w.kind_of(w.lanes[l]);
      (kind == kind_enter ? entering : kind == kind_leave ? leaving : kind == kind_block ? branching : working) |= 1u << l;
    }
    if (entering) {
      FOR_LANES(l, entering) enter(w.lanes[l]);
      return;
    }
    if (!working) {
      FOR_LANES(l, leaving) leave(w.lanes[l]);
      if (branching) branch(w, branching);
      return;
    }
    unsigned number = next_site(w, working), here = 0;
    FOR_LANES(l, working) if (site_of(w.lanes[l].events[w.lanes[l].next]) == number) here |= 1u << l;
    Place* s = &w.data->places[number];
    if (s->kind == kind_condition) {
      FOR_LANES(l, here) w.lanes[l].condition = number;
    } else {
      s->warps++;
      s->threads += __builtin_popcount(here);
      count_access(w, s, here);
    }
    FOR_LANES(l, here) w.lanes[l].next++;
  }
}

}  // namespace

void profile::replay_warp(Data* data, const Block* block, Lane* lanes, unsigned num_lanes) {
  Warp32 w = {data, block, lanes, num_lanes};
  for (;;) {
    unsigned group = 0;
    int depth = -1;
    uint64_t pc = 0;
    for (unsigned l = 0; l < num_lanes; l++) {
      const Lane& lane = lanes[l];
      if (ended(lane)) continue;
      uint64_t at = lane.pc[lane.depth];
      if (lane.depth > depth || (lane.depth == depth && at < pc)) depth = lane.depth, pc = at, group = 0;
      if (lane.depth == depth && at == pc) group |= 1u << l;
    }
    if (!group) break;
    run_together(w, group);
  }
  for (unsigned l = 0; l < num_lanes; l++) lanes[l].count = lanes[l].next = 0;
}
