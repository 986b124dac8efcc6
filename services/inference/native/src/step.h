// A checked batch, turned into the rows, adapter groups and attention tiles of one step.
#pragma once

#include <cstdint>
#include <vector>

#include "edgelora_native.h"
#include "lora_slots.h"
#include "packed_file.h"

namespace edgelora {

struct Row {
  int32_t token;
  int32_t position;
  int32_t chunk;
};

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

// Queries [first, first + count) of a chunk, counted over (row, query head of the group).
struct QueryTile {
  int32_t chunk;
  int32_t kv_head;
  int32_t first;
  int32_t count;
};

// Holds the adapter slots it uses for as long as it lives.
struct Step {
  // Throws Error when the batch asks for what the engine does not have.
  Step(const el_batch& batch, const PackedHeader& shape, const el_limits& limits, LoraSlots& slots,
       int query_tile);
  ~Step();
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  const el_batch& batch;
  std::vector<Row> rows;
  std::vector<int32_t> logit_rows;
  std::vector<AdapterEntry> entries;        // grouped by slot
  std::vector<EntryRun> runs;
  std::vector<int32_t> row_entries;         // indices into entries, by row
  std::vector<int32_t> row_entry_offsets;   // rows + 1
  std::vector<int32_t> entry_slots;         // slot of each entry
  std::vector<QueryTile> tiles;
  int32_t longest_context = 0;

  const std::vector<int32_t>& held_slots() const { return held_; }
  int num_rows() const { return static_cast<int>(rows.size()); }
  int32_t block_of(int32_t chunk, int32_t position) const {
    return batch.block_tables[batch.block_offsets[chunk] + position / EL_BLOCK_TOKENS];
  }

 private:
  void check_chunk(int32_t chunk, const PackedHeader& shape, const el_limits& limits) const;
  void check_sharing(const el_limits& limits) const;
  void list_adapters(int32_t chunk, std::vector<std::vector<AdapterEntry>>& by_slot);
  void list_rows(int32_t chunk, const PackedHeader& shape, int query_tile);
  void group_entries(const std::vector<std::vector<AdapterEntry>>& by_slot);

  int32_t count_of(int32_t chunk) const {
    return batch.token_offsets[chunk + 1] - batch.token_offsets[chunk];
  }
  static int32_t num_blocks_of(int32_t tokens) {
    return (tokens + EL_BLOCK_TOKENS - 1) / EL_BLOCK_TOKENS;
  }

  LoraSlots& slots_;
  std::vector<int32_t> held_;
  size_t num_entries_ = 0;
};

}  // namespace edgelora
