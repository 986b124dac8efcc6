// A checked batch, turned into the rows, adapter groups and attention tiles of one step.
#pragma once

#include <cstdint>
#include <vector>

#include "adapter_rows.h"
#include "edgelora_native.h"
#include "packed_file.h"

namespace edgelora {

struct Row {
  int32_t token;
  int32_t position;
  int32_t chunk;
};

// Queries [first, first + count) of a chunk, counted over (row, query head of the group).
struct QueryTile {
  int32_t chunk;
  int32_t kv_head;
  int32_t first;
  int32_t count;
};

// A step of the decoder.
struct Step {
  // Throws Error when the batch asks for what the engine does not have.
  Step(const el_batch& batch, const PackedHeader& shape, const el_limits& limits, LoraSlots& slots,
       int query_tile);

  const el_batch& batch;
  std::vector<Row> rows;
  std::vector<int32_t> logit_rows;
  AdapterRows adapters;
  std::vector<QueryTile> tiles;
  int32_t longest_context = 0;

  int num_rows() const { return static_cast<int>(rows.size()); }
  int32_t block_of(int32_t chunk, int32_t position) const {
    return batch.block_tables[batch.block_offsets[chunk] + position / EL_BLOCK_TOKENS];
  }

 private:
  void check_chunk(int32_t chunk, const PackedHeader& shape, const el_limits& limits) const;
  void check_sharing(const el_limits& limits) const;
  void list_adapters(int32_t chunk);
  void list_rows(int32_t chunk, const PackedHeader& shape, int query_tile);

  int32_t count_of(int32_t chunk) const {
    return batch.token_offsets[chunk + 1] - batch.token_offsets[chunk];
  }
  static int32_t num_blocks_of(int32_t tokens) {
    return (tokens + EL_BLOCK_TOKENS - 1) / EL_BLOCK_TOKENS;
  }
};

}  // namespace edgelora
