// What is known of every word of memory: who wrote it last, who has read it since.
//
// A cell stands for a word of 4 bytes (2 in arrays of 2-byte elements, 1 in those of bytes), and for one byte where a
// kernel has touched parts of a word. Reads are kept by warp and
// clock with a mask of lanes; reads of earlier barrier intervals are forgotten, as nothing can race with them. Of
// readers in other blocks one is kept.
#pragma once
#include "check_order.h"

namespace emu::check {

struct Readers {  // lanes of one warp that read at one clock
  uint32_t run, epoch, clock, mask;
  Site32 site;
  uint32_t warp;
};
struct MoreReaders {
  Readers readers;
  uint32_t next;
};

struct Cell {
  uint32_t run;  // of shared memory: the block that this describes
  uint8_t written, split, copying;
  Access writer_access;
  Stamp writer;
  Site32 writer_site;
  Readers readers;
  uint32_t more;  // further readers, 0: none
  Stamp stranger;  // a reader in another block; run 0: none
  Site32 stranger_site;
  Release* released;
};

struct Shadow {
  Cell* words;
  Cell* bytes;
  size_t size;  // of the memory, in bytes
  unsigned unit;  // of a word, in bytes
  bool shared;
};

constexpr uint32_t max_more = 1 << 20;
static MoreReaders* pool;  // entry 0 is not used
static uint32_t pool_used;

static Shadow make_shadow(size_t size, unsigned unit, bool shared) {
  size_t words = (size + unit - 1) / unit;
  Shadow s = {(Cell*)reserve(words * sizeof(Cell)), (Cell*)reserve(words * unit * sizeof(Cell)), size, unit, shared};
  if (!pool) pool = (MoreReaders*)reserve(max_more * sizeof(MoreReaders)), pool_used = 1;
  return s;
}
static void drop_shadow(Shadow* s) {
  size_t words = s->unit ? (s->size + s->unit - 1) / s->unit : 0;
  if (s->words) release(s->words, words * sizeof(Cell));
  if (s->bytes) release(s->bytes, words * s->unit * sizeof(Cell));
  *s = Shadow{};
}

// One access by a thread, while it is judged.
struct Visit {
  unsigned thread;
  Access access;
  Site32 site;
  bool judged_whole;  // an access of one number: every byte of it must have been written
};

enum Verdict { fine, race_with_writer, race_with_readers, race_with_stranger, same_write, never_written, copy_under_way };

struct Found {
  Verdict verdict;
  Stamp other;
  Access other_access;
  Site32 other_site;
};

static inline bool is_write(Access a) { return a == writing || a == changing || a == signalling; }
static inline bool is_strong(Access a) { return a == changing || a == polling || a == signalling; }

static inline void forget_old_readers(Cell* c) {
  Readers& r = c->readers;
  if (!r.mask || (r.run == order.run && r.epoch == order.epoch)) return;
  if (r.run != order.run) {
    unsigned thread = r.warp * warp_lanes + __builtin_ctz(r.mask);
    c->stranger = Stamp{r.run, thread, r.epoch, r.clock}, c->stranger_site = r.site;
  }
  r.mask = 0, c->more = 0;
}

static void note_reader(Cell* c, const Visit& v) {
  unsigned warp = v.thread / warp_lanes, bit = 1u << v.thread % warp_lanes;
  uint32_t clock = order.clock[v.thread];
  forget_old_readers(c);
  Readers& front = c->readers;
  const Readers mine = {order.run, order.epoch, clock, bit, v.site, warp};
  if (!front.mask) {
    front = mine;
    return;
  }
  auto fits = [&](Readers& r) {
    if (r.warp != warp) return false;
    if (r.clock == clock) r.mask |= bit;
    else if (r.clock < order.met[warp]) r = mine;  // the earlier readers of the warp come before this one
    else return false;
    return true;
  };
  if (fits(front)) return;
  for (uint32_t i = c->more; i; i = pool[i].next)
    if (fits(pool[i].readers)) {
      Readers found = pool[i].readers;  // to the front: its warp's other lanes come next
      pool[i].readers = front, front = found;
      return;
    }
  if (!pool || pool_used == max_more) return;
  pool[pool_used] = MoreReaders{front, c->more};
  c->more = pool_used++;
  front = mine;
}

static bool clashes(const Readers& r, const Visit& v, Found* found) {
  if (!r.mask || r.run != order.run || r.epoch != order.epoch) return false;
  for (unsigned mask = r.mask; mask; mask &= mask - 1) {
    Stamp s = {r.run, r.warp * warp_lanes + __builtin_ctz(mask), r.epoch, r.clock};
    if (s.thread == v.thread || happened_before(s, v.thread)) continue;
    *found = Found{race_with_readers, s, reading, r.site};
    return true;
  }
  return false;
}

static bool clashes_with_readers(Cell* c, const Visit& v, Found* found) {
  forget_old_readers(c);
  if (clashes(c->readers, v, found)) return true;
  for (uint32_t i = c->more; i; i = pool[i].next)
    if (clashes(pool[i].readers, v, found)) return true;
  if (c->stranger.run && c->stranger.run != order.run && !happened_before(c->stranger, v.thread)) {
    *found = Found{race_with_stranger, c->stranger, reading, c->stranger_site};
    return true;
  }
  return false;
}

static Found visit(Cell* c, const Visit& v) {
  Found found = {};
  if (c->copying) {
    found = Found{copy_under_way, c->writer, writing, c->writer_site};
    return found;
  }
  if (is_strong(v.access) && c->released) acquire(v.thread, c->released);
  bool race = c->written && !(is_strong(v.access) && is_strong(c->writer_access)) &&
              c->writer.thread + (uint64_t)c->writer.run * max_threads != v.thread + (uint64_t)order.run * max_threads &&
              !happened_before(c->writer, v.thread);
  if (race) {
    found = Found{race_with_writer, c->writer, c->writer_access, c->writer_site};
    if (v.access != writing || c->writer_access != writing) return found;
    found.verdict = same_write;  // unless the value turns out to be another one
  }
  if (!is_write(v.access)) {
    if (v.access == reading) note_reader(c, v);
    return found;
  }
  Found reader = {};
  if (clashes_with_readers(c, v, &reader)) return reader;
  c->readers.mask = 0, c->more = 0, c->stranger.run = 0;
  c->written = 1, c->writer = now(v.thread), c->writer_access = v.access, c->writer_site = v.site;
  if (is_strong(v.access)) c->released = publish(v.thread, c->released);
  return found;
}

// Calls `act` with each cell that stands for bytes [at, at + bytes), and the cell's offset. Stops where it returns false.
template <class Act>
static inline void each_cell(Shadow& s, size_t at, size_t bytes, Act act) {
  const unsigned unit = s.unit;
  for (size_t end = at + bytes; at < end;) {
    size_t word = at / unit, stop = word * unit + unit < end ? word * unit + unit : end;
    Cell* c = &s.words[word];
    if (s.shared && c->run != order.run) *c = Cell{}, c->run = order.run;
    bool whole = at % unit == 0 && stop - at == unit;
    if (whole && !c->split) {
      if (!act(c, at)) return;
      at = stop;
      continue;
    }
    if (!c->split) {
      for (unsigned i = 0; i < unit; i++) s.bytes[word * unit + i] = *c;
      c->split = 1;
    }
    for (; at < stop; at++)
      if (!act(&s.bytes[at], at)) return;
  }
}

}  // namespace emu::check
