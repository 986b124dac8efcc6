// Which adapters change which rows of a step, grouped by slot so that one pass over an adapter's
// factors serves all its rows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lora_slots.h"

namespace edgelora {

// One adapter's share in one row.
struct AdapterEntry {
  int32_t row;
  float weight;
  int32_t order;  // among the adapters of its row, as the batch names them
};

// Entries of one slot whose rows follow each other, at most kMaxRunRows.
struct EntryRun {
  int32_t slot;
  int32_t first_entry;
  int32_t first_row;
  int32_t count;
};
constexpr int kMaxRunRows = 32;

// Holds the adapter slots it uses for as long as it lives.
class AdapterRows {
 public:
  explicit AdapterRows(LoraSlots& slots);
  ~AdapterRows();
  AdapterRows(const AdapterRows&) = delete;
  AdapterRows& operator=(const AdapterRows&) = delete;

  // Adapters of the rows [first_row, first_row + num_rows), which lie behind those of the calls
  // before. `adapter_slots` and `weights` hold `count` of each. Throws Error.
  void add(int32_t first_row, int32_t num_rows, const int32_t* adapter_slots,
           const float* weights, int32_t count);
  // Groups what was added and holds its slots. Throws Error when one holds nothing.
  void group(size_t num_rows);

  std::vector<AdapterEntry> entries;       // grouped by slot
  std::vector<int32_t> entry_slots;        // slot of each entry
  std::vector<EntryRun> runs;
  std::vector<int32_t> row_entries;        // indices into entries, by row
  std::vector<int32_t> row_entry_offsets;  // rows + 1

  const std::vector<int32_t>& held_slots() const { return held_; }

 private:
  void hold_slots();

  LoraSlots& slots_;
  std::vector<std::vector<AdapterEntry>> by_slot_;
  std::vector<int32_t> held_;
  size_t num_entries_ = 0;
};

}  // namespace edgelora
