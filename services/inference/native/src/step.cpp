#include "step.h"

#include <algorithm>

#include "error.h"

namespace edgelora {

namespace {

constexpr const char* kMissing = "an array of the batch is missing";

// Whether offsets [at] and [at + 1] enclose at least `least` things.
bool encloses(const int32_t* offsets, int32_t at, int32_t least) {
  return offsets[at] >= 0 && int64_t{offsets[at + 1]} - offsets[at] >= least;
}

}  // namespace

Step::Step(const el_batch& b, const PackedHeader& shape, const el_limits& limits, LoraSlots& slots,
           int query_tile)
    : batch(b), adapters(slots) {
  require(b.num_chunks >= 1, "a step needs at least one sequence");
  require(b.token_offsets != nullptr && b.start_positions != nullptr &&
              b.block_offsets != nullptr && b.adapter_offsets != nullptr &&
              b.needs_logits != nullptr,
          kMissing);
  require(b.token_offsets[0] == 0 && b.block_offsets[0] == 0 && b.adapter_offsets[0] == 0,
          "the offsets of a batch start at 0");
  for (int32_t chunk = 0; chunk < b.num_chunks; chunk++) {
    check_chunk(chunk, shape, limits);
    list_adapters(chunk);
    list_rows(chunk, shape, query_tile);
  }
  check_sharing(limits);
  adapters.group(rows.size());
}

void Step::check_chunk(int32_t chunk, const PackedHeader& shape, const el_limits& limits) const {
  const el_batch& b = batch;
  const int32_t start = b.start_positions[chunk];
  require(encloses(b.token_offsets, chunk, 1) &&
              b.token_offsets[chunk + 1] <= limits.max_step_tokens,
          "a step holds 1 to max_step_tokens tokens");
  const int32_t count = count_of(chunk);
  require(start >= 0 && start <= static_cast<int32_t>(shape.max_context_tokens) - count,
          "a sequence is longer than the model's context");
  require(encloses(b.block_offsets, chunk, 0) && encloses(b.adapter_offsets, chunk, 0),
          "the offsets of a batch must not fall");
  const int32_t num_blocks = b.block_offsets[chunk + 1] - b.block_offsets[chunk];
  require(num_blocks >= num_blocks_of(start + count),
          "a block table is too short for its sequence");
  require(b.token_ids != nullptr && b.block_tables != nullptr, kMissing);
  for (int32_t i = b.block_offsets[chunk]; i < b.block_offsets[chunk + 1]; i++)
    require(b.block_tables[i] >= 0 && b.block_tables[i] < limits.num_kv_blocks,
            "a block table names a block that does not exist");
  for (int32_t i = b.token_offsets[chunk]; i < b.token_offsets[chunk + 1]; i++)
    require(b.token_ids[i] >= 0 && b.token_ids[i] < static_cast<int32_t>(shape.vocab_size),
            "a token id is outside the vocabulary");
}

// Blocks may be shared by those who read them. What a step writes, nobody else may read in it.
void Step::check_sharing(const el_limits& limits) const {
  const auto block_at = [&](int32_t chunk, int32_t i) {
    return static_cast<size_t>(batch.block_tables[batch.block_offsets[chunk] + i]);
  };
  std::vector<bool> is_written(static_cast<size_t>(limits.num_kv_blocks), false);
  for (int32_t c = 0; c < batch.num_chunks; c++) {
    const int32_t start = batch.start_positions[c];
    for (int32_t i = start / EL_BLOCK_TOKENS; i < num_blocks_of(start + count_of(c)); i++) {
      require(!is_written[block_at(c, i)], "two sequences write the same block");
      is_written[block_at(c, i)] = true;
    }
  }
  for (int32_t c = 0; c < batch.num_chunks; c++)
    for (int32_t i = 0; i < batch.start_positions[c] / EL_BLOCK_TOKENS; i++)
      require(!is_written[block_at(c, i)], "a sequence reads a block that the step writes");
}

void Step::list_adapters(int32_t chunk) {
  const el_batch& b = batch;
  const int32_t first = b.adapter_offsets[chunk];
  const int32_t count = b.adapter_offsets[chunk + 1] - first;
  if (count == 0) return;
  require(b.adapter_slots != nullptr && b.adapter_weights != nullptr, kMissing);
  adapters.add(num_rows(), count_of(chunk), b.adapter_slots + first, b.adapter_weights + first,
               count);
}

void Step::list_rows(int32_t chunk, const PackedHeader& shape, int query_tile) {
  const int32_t count = count_of(chunk);
  const int32_t start = batch.start_positions[chunk];
  for (int32_t i = 0; i < count; i++)
    rows.push_back({batch.token_ids[batch.token_offsets[chunk] + i], start + i, chunk});
  if (batch.needs_logits[chunk] != 0) logit_rows.push_back(num_rows() - 1);
  longest_context = std::max(longest_context, start + count);
  const auto heads = static_cast<int32_t>(shape.num_heads / shape.num_kv_heads);
  for (int32_t kv = 0; kv < static_cast<int32_t>(shape.num_kv_heads); kv++)
    for (int32_t q = 0; q < count * heads; q += query_tile)
      tiles.push_back({chunk, kv, q, std::min(query_tile, count * heads - q)});
}

}  // namespace edgelora
