// Judges one access: where the address lies, whether it may be touched, and what its cells say.
#pragma once
#include "check_cells.h"

namespace emu::check {

// A write that raced with another one: both are forgiven if they wrote the same, which is seen after it is made.
struct Doubt {
  bool open;
  const char* address;
  unsigned bytes;
  char before[64];
  Report report;
};

constexpr int max_regions = 64;  // races are not looked for beyond
static Launch* launch;
static Data* data;
static uintptr_t stacks, stacks_bytes, image, image_bytes;
static Shadow static_shadow, dynamic_shadow, region_shadow[max_regions];
static uint16_t* variable_at;  // of each byte of static shared memory; 0: padding, else number + 1
constexpr uint16_t guard = 0xFFFF;
static size_t variable_bytes;
static int last_array;
static Doubt doubt;

[[noreturn]] static void fail() {
  emu_fail(fault_check, nullptr, 0, 0, 0, "check");
}

static Report* report(int kind, const Visit& v, Space space, int item, int64_t offset, size_t bytes) {
  Report* r = &data->report;
  Site32 last = r->last_site;
  memset((void*)r, 0, sizeof *r);
  r->kind = kind, r->access = v.access, r->space = space, r->item = item, r->offset = offset, r->bytes = bytes;
  r->run = order.run, r->thread = v.thread, r->site = v.site, r->last_site = last;
  return r;
}

// Called at the start of everything: did the write in doubt change the value?
static inline void settle() {
  if (__builtin_expect(!doubt.open, 1)) return;
  doubt.open = false;
  if (!memcmp(doubt.before, doubt.address, doubt.bytes)) return;
  data->report = doubt.report;
  fail();
}

static void judge(Shadow& shadow, const Visit& v, Space space, int item, size_t item_begin, size_t at, size_t bytes,
                  const char* address) {
  size_t unwritten = 0, first_unwritten = at;
  each_cell(shadow, at, bytes, [&](Cell* c, size_t offset) {
    bool first_write = !c->written;
    if (shadow.shared && first_write && !c->copying && (v.access == reading || v.access == changing)) {
      if (!unwritten) first_unwritten = offset;
      unwritten += c >= shadow.bytes && c < shadow.bytes + shadow.size ? 1 : shadow.unit;
    }
    Found f = visit(c, v);
    if (f.verdict == fine) return true;
    Report* r = report(f.verdict == copy_under_way ? not_waited : race, v, space, item, (int64_t)(offset - item_begin), bytes);
    r->other_access = f.other_access, r->other_run = f.other.run, r->other_thread = f.other.thread;
    r->other_site = f.other_site;
    r->first_write = first_write && f.verdict == race_with_readers;
    if (f.verdict != same_write || bytes > sizeof doubt.before) fail();
    if (!doubt.open) {
      doubt.open = true, doubt.address = address, doubt.bytes = (unsigned)bytes, doubt.report = *r;
      memcpy(doubt.before, address, bytes);
    }
    return true;
  });
  // If another thread writes there before the next barrier it is a race; the value read is a NaN until then.
  if (unwritten && !data->unwritten.kind && (v.judged_whole || unwritten >= bytes)) {
    Report before = data->report;
    data->unwritten = *report(uninitialised, v, space, item, (int64_t)(first_unwritten - item_begin), bytes);
    data->report = before;
  }
}

static void nobody_wrote() {
  if (!data->unwritten.kind) return;
  data->report = data->unwritten;
  fail();
}

// An address that belongs to nothing: what is it nearest to?
static void out_of_bounds(const Visit& v, Block* b, uintptr_t a, size_t bytes) {
  uint64_t nearest = ~0ull;
  Space space = nowhere;
  int item = -1;
  int64_t offset = (int64_t)a;
  auto consider = [&](Space s, int i, uintptr_t begin, size_t size) {
    uint64_t distance = a < begin ? begin - a : a + bytes > begin + size ? a + bytes - begin - size : 0;
    if (distance < nearest) nearest = distance, space = s, item = i, offset = (int64_t)(a - begin);
  };
  for (int i = 0; i < launch->num_arrays; i++)
    if (launch->arrays[i].bytes) consider(in_array, i, (uintptr_t)launch->arrays[i].begin, launch->arrays[i].bytes);
  for (int i = 0; i < data->num_variables; i++)
    consider(in_static_shared, i, (uintptr_t)b->static_shared + data->variables[i].offset, data->variables[i].bytes);
  consider(in_dynamic_shared, -1, (uintptr_t)b->dynamic_shared, b->dynamic_bytes);
  if (nearest > (uint64_t)1 << 32 || a < 65536) space = nowhere, item = -1, offset = (int64_t)a;
  report(bounds, v, space, item, offset, bytes);
  fail();
}

static inline void access(const volatile void* p, size_t bytes, Access kind, Site32 site, bool whole) {
  uintptr_t a = (uintptr_t)p;
  if (a - stacks < stacks_bytes) return;
  settle();
  data->report.last_site = site;
  Thread* t = self();
  Block* b = t->block;
  Visit v = {t->index, kind, site, whole};
  size_t at = a - (uintptr_t)b->static_shared;
  if (at < b->static_bytes) {
    if (kind == polling) v.access = reading;  // volatile orders nothing between threads
    if (kind == signalling) v.access = writing;
    int variable = at < variable_bytes ? variable_at[at] : 0;
    if (variable == guard) return;
    if (!variable || at + bytes > variable_bytes || variable_at[at + bytes - 1] != variable) {
      if (!variable) out_of_bounds(v, b, a, bytes);
      report(bounds, v, in_static_shared, variable - 1, (int64_t)(at - data->variables[variable - 1].offset), bytes);
      fail();
    }
    judge(static_shadow, v, in_static_shared, variable - 1, data->variables[variable - 1].offset, at, bytes, (const char*)p);
    return;
  }
  at = a - (uintptr_t)b->dynamic_shared;
  if (at < b->dynamic_bytes) {
    if (kind == polling) v.access = reading;
    if (kind == signalling) v.access = writing;
    if (at + bytes > b->dynamic_bytes) out_of_bounds(v, b, a, bytes);
    judge(dynamic_shadow, v, in_dynamic_shared, -1, 0, at, bytes, (const char*)p);
    return;
  }
  int i = last_array;
  for (int tries = launch->num_arrays; tries > 0; tries--, i = i + 1 < launch->num_arrays ? i + 1 : 0) {
    const Array& array = launch->arrays[i];
    at = a - (uintptr_t)array.begin;
    if (at >= array.bytes || at + bytes > array.bytes) continue;
    last_array = i;
    for (int r = 0; r < data->num_regions; r++) {
      size_t inside = a - data->regions[r].begin;
      if (inside >= data->regions[r].bytes) continue;
      if (r < max_regions && region_shadow[r].words && region_shadow[r].bytes)
        judge(region_shadow[r], v, in_array, i, (uintptr_t)array.begin - data->regions[r].begin, inside, bytes, (const char*)p);
      return;
    }
    return;
  }
  if (a - (uintptr_t)b < sizeof *b || a - image < image_bytes) return;
  out_of_bounds(v, b, a, bytes);
}

}  // namespace emu::check
