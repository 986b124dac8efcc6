#include "adapter_rows.h"

#include <cmath>

#include "error.h"

namespace edgelora {
namespace {

// Entries are numbered, and multiplied by modules and ranks, in 32 bits.
constexpr size_t kMaxEntries = size_t{1} << 20;

}  // namespace

AdapterRows::AdapterRows(LoraSlots& slots)
    : slots_(slots), by_slot_(static_cast<size_t>(slots.size())) {}

AdapterRows::~AdapterRows() {
  for (const int32_t slot : held_) slots_.release(slot);
}

void AdapterRows::add(int32_t first_row, int32_t num_rows, const int32_t* adapter_slots,
                      const float* weights, int32_t count) {
  int32_t order = 0;
  for (int32_t a = 0; a < count; a++) {
    require(adapter_slots[a] >= 0 && adapter_slots[a] < slots_.size(),
            "there is no such adapter slot");
    require(std::isfinite(weights[a]), "an adapter weight is not finite");
    if (weights[a] == 0.0f) continue;
    num_entries_ += static_cast<size_t>(num_rows);
    require(num_entries_ <= kMaxEntries, "a step has too many rows with adapters");
    for (int32_t i = 0; i < num_rows; i++)
      by_slot_[static_cast<size_t>(adapter_slots[a])].push_back({first_row + i, weights[a], order});
    order++;
  }
}

void AdapterRows::group(size_t num_rows) {
  row_entry_offsets.assign(num_rows + 1, 0);
  for (size_t slot = 0; slot < by_slot_.size(); slot++) {
    const std::vector<AdapterEntry>& mine = by_slot_[slot];
    if (mine.empty()) continue;
    for (size_t i = 0; i < mine.size(); i++) {
      const AdapterEntry& entry = mine[i];
      const bool goes_on = i > 0 && mine[i - 1].row + 1 == entry.row &&
                           runs.back().count < kMaxRunRows;
      if (goes_on) {
        runs.back().count++;
      } else {
        runs.push_back({static_cast<int32_t>(slot), static_cast<int32_t>(entries.size()),
                        entry.row, 1});
      }
      entries.push_back(entry);
      entry_slots.push_back(static_cast<int32_t>(slot));
      row_entry_offsets[static_cast<size_t>(entry.row) + 1]++;
    }
  }
  for (size_t r = 0; r < num_rows; r++) row_entry_offsets[r + 1] += row_entry_offsets[r];
  // In the order of the batch, not of the slots: where others' adapters left room must not change
  // the order of a row's sums.
  row_entries.resize(entries.size());
  for (size_t e = 0; e < entries.size(); e++) {
    const int32_t first = row_entry_offsets[static_cast<size_t>(entries[e].row)];
    row_entries[static_cast<size_t>(first + entries[e].order)] = static_cast<int32_t>(e);
  }
  hold_slots();
}

void AdapterRows::hold_slots() {
  held_.reserve(by_slot_.size());
  for (int32_t slot = 0; slot < slots_.size(); slot++) {
    if (by_slot_[static_cast<size_t>(slot)].empty()) continue;
    // The destructor releases those that are held.
    require(slots_.hold(slot), "a sequence names an adapter slot that holds nothing");
    held_.push_back(slot);
  }
}

}  // namespace edgelora
