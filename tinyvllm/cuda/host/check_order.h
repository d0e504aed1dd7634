// What happens before what, in the CUDA memory model: block barriers, __syncwarp, and fences with atomics.
//
// Each thread has a clock. An access is stamped with the number of its block, the barriers the block had passed, the
// thread and its clock. Within a block, an access of an earlier barrier interval is ordered before everything later;
// within a warp, __syncwarp tells lanes of each other's clocks (shuffles and votes order no memory). Across warps and
// blocks, a thread that made a fence and then an atomic releases what the fence covered (threads that it had met by
// barriers included), and a thread whose atomic comes later on the same address acquires it: Lamport's "happened
// before" with epochs as in FastTrack (Flanagan and Freund, 2009). Blocks run one after another on one worker.
#pragma once
#include "check.h"

namespace emu::check {

struct Stamp {
  uint32_t run, thread, epoch, clock;
};
struct Covered {  // accesses of a thread up to here are made visible by a fence
  uint32_t epoch, clock;
};
struct Snapshot {  // what a thread's fences, and those of threads it met since, make visible
  uint32_t run, threads, epoch;  // everything of this block before barrier `epoch`
  Covered of[1];
};
struct Release;
struct Acquire {  // a thread saw the releases of an address
  Stamp by;
  Release* seen;
  Acquire* next;
};
struct Release {
  Snapshot* snapshot;
  Acquire* acquired;  // by this block before
  Release* next;      // the one before on this address
  uint32_t query;
};

struct Order {
  Block* block;
  uint32_t run, epoch;
  uint32_t clock[max_threads];
  uint32_t met[max_threads / warp_lanes];  // clocks below: the whole warp has met since
  uint32_t known[max_threads][warp_lanes];  // what parts of a warp told each other
  Covered fenced[max_threads];
  uint32_t fences, version;  // version: of the snapshot's making
  Acquire* acquired;
  Snapshot* latest;
  uint32_t latest_thread, latest_version, query;
  char *arena, *arena_end, *arena_begin;
  bool lost;  // no memory to remember releases: count all as ordered
};
static Order order;
constexpr size_t arena_bytes = (size_t)512 << 20;

template <class T>
static T* make(size_t bytes = sizeof(T)) {
  bytes = (bytes + 15) & ~(size_t)15;
  if (!order.arena_begin) {
    order.arena_begin = order.arena = reserve(arena_bytes);
    order.arena_end = order.arena + (order.arena ? arena_bytes : 0);
  }
  if ((size_t)(order.arena_end - order.arena) < bytes) {
    order.lost = true;
    return nullptr;
  }
  T* made = (T*)order.arena;
  order.arena += bytes;
  return made;
}

static void begin_order(Block* b) {
  order.block = b;
  order.run++;
  order.epoch = 0;
  order.fences = 0;
  order.version++;
  order.acquired = nullptr;
  order.latest = nullptr;
  unsigned n = b->num_threads, warps = (n + warp_lanes - 1) / warp_lanes;
  for (unsigned i = 0; i < warps * warp_lanes; i++) order.clock[i] = 1, order.fenced[i] = Covered{0, 0};
  for (unsigned w = 0; w < warps; w++) order.met[w] = 1;
  memset(order.known, 0, warps * sizeof order.known[0] * warp_lanes);
}

static void end_order() {
  if (order.arena_begin) release(order.arena_begin, arena_bytes);
  memset((void*)&order, 0, sizeof order);
}

static Stamp now(unsigned thread) { return Stamp{order.run, thread, order.epoch, order.clock[thread]}; }

static void warp_met(unsigned warp, unsigned lanes) {
  uint32_t* clock = order.clock + warp * warp_lanes;
  order.version++;
  unsigned rest = order.block->num_threads - warp * warp_lanes;
  if (lanes == (rest >= warp_lanes ? ~0u : (1u << rest) - 1)) {
    uint32_t latest = 0;
    for (unsigned l = 0; l < warp_lanes; l++)
      if (clock[l] > latest) latest = clock[l];
    order.met[warp] = latest + 1;
    for (unsigned l = 0; l < warp_lanes; l++) clock[l] = latest + 1;
    return;
  }
  uint32_t joined[warp_lanes] = {};
  for (unsigned l = 0; l < warp_lanes; l++) {
    if (!(lanes >> l & 1)) continue;
    const uint32_t* mine = order.known[warp * warp_lanes + l];
    for (unsigned o = 0; o < warp_lanes; o++)
      if (mine[o] > joined[o]) joined[o] = mine[o];
    if (clock[l] > joined[l]) joined[l] = clock[l];
  }
  for (unsigned l = 0; l < warp_lanes; l++) {
    if (!(lanes >> l & 1)) continue;
    memcpy(order.known[warp * warp_lanes + l], joined, sizeof joined);
    clock[l]++;
  }
}

// By barriers and __syncwarp alone, for stamps of the block that runs.
static inline bool met_since(const Stamp& a, unsigned thread) {
  if (a.thread == thread || a.epoch < order.epoch) return true;
  unsigned warp = thread / warp_lanes;
  if (a.thread / warp_lanes != warp) return false;
  return a.clock < order.met[warp] || order.known[thread][a.thread % warp_lanes] >= a.clock;
}

static void fence(unsigned thread) {
  unsigned first = thread / warp_lanes * warp_lanes, warp = thread / warp_lanes;
  order.fences++;
  order.version++;
  for (unsigned l = 0; l < warp_lanes; l++) {  // its own accesses, and those it knows of
    uint32_t clock = first + l == thread ? order.clock[thread] : order.known[thread][l];
    if (first + l != thread && order.met[warp] - 1 > clock) clock = order.met[warp] - 1;
    Covered& c = order.fenced[first + l];
    if (c.epoch < order.epoch || c.clock < clock) c = Covered{order.epoch, clock};
  }
}

static bool covers(const Snapshot* s, const Stamp& a) {
  if (s->run != a.run) return false;
  const Covered& c = s->of[a.thread];
  return a.epoch < s->epoch || a.epoch < c.epoch || (a.epoch == c.epoch && a.clock <= c.clock);
}

static Snapshot* snapshot(unsigned thread) {
  if (order.latest && order.latest_thread == thread && order.latest_version == order.version) return order.latest;
  unsigned n = order.block->num_threads;
  Snapshot* s = make<Snapshot>(sizeof(Snapshot) + n * sizeof(Covered));
  if (!s) return nullptr;
  s->run = order.run, s->threads = n, s->epoch = 0;
  for (unsigned i = 0; i < n; i++) {
    Covered c = order.fenced[i];
    if (c.clock && !met_since(Stamp{order.run, i, c.epoch, c.clock}, thread)) c = Covered{0, 0};
    s->of[i] = c;
    if (c.epoch > s->epoch) s->epoch = c.epoch;
  }
  order.latest = s, order.latest_thread = thread, order.latest_version = order.version;
  return s;
}

static void acquire(unsigned thread, Release* seen) {
  if (!seen || (order.acquired && order.acquired->seen == seen && order.acquired->by.thread == thread)) return;
  Acquire* a = make<Acquire>();
  if (!a) return;
  *a = Acquire{now(thread), seen, order.acquired};
  order.acquired = a;
}

static Release* publish(unsigned thread, Release* before) {
  if (!order.fences) return before;
  Snapshot* s = snapshot(thread);
  Release* r = s ? make<Release>() : nullptr;
  if (!r) return before;
  *r = Release{s, order.acquired, before, 0};
  return r;
}

// Whether releases reachable from these cover an access.
static bool released(Release* from, const Stamp& a) {
  static Release* todo[4096];
  unsigned count = 0, steps = 0;
  todo[count++] = from;
  while (count) {
    for (Release* r = todo[--count]; r && r->query != order.query; r = r->next) {
      r->query = order.query;
      if (++steps > 200000) return true;  // too much to follow
      if (covers(r->snapshot, a)) return true;
      for (Acquire* q = r->acquired; q; q = q->next) {
        if (++steps > 200000) return true;
        if (q->seen->query == order.query || !covers(r->snapshot, q->by)) continue;
        if (count == sizeof todo / sizeof todo[0]) return true;
        todo[count++] = q->seen;
      }
    }
  }
  return false;
}

static bool happened_before(const Stamp& a, unsigned thread) {
  if (a.run == order.run && met_since(a, thread)) return true;
  if (order.lost) return true;
  order.query++;
  for (Acquire* q = order.acquired; q; q = q->next)
    if (met_since(q->by, thread) && released(q->seen, a)) return true;
  return false;
}

}  // namespace emu::check
