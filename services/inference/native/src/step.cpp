#include "step.h"

#include <algorithm>
#include <cmath>

#include "error.h"

namespace edgelora {

Step::Step(const el_batch& b, const PackedHeader& shape, const el_limits& limits, LoraSlots& slots,
           int query_tile)
    : batch(b), slots_(slots) {
  std::vector<std::vector<AdapterEntry>> by_slot(static_cast<size_t>(slots.size()));
  check_and_list(shape, limits, query_tile, by_slot);
  group_entries(by_slot);
  for (int32_t slot = 0; slot < slots.size(); slot++) {
    if (by_slot[static_cast<size_t>(slot)].empty()) continue;
    if (slots_.hold(slot)) {
      held_.push_back(slot);
      continue;
    }
    for (const int32_t held : held_) slots_.release(held);
    throw Error("a sequence names an adapter slot that holds nothing");
  }
}

Step::~Step() {
  for (const int32_t slot : held_) slots_.release(slot);
}

void Step::check_and_list(const PackedHeader& shape, const el_limits& limits, int query_tile,
                          std::vector<std::vector<AdapterEntry>>& by_slot) {
  const el_batch& b = batch;
  require(b.num_chunks >= 1, "a step needs at least one sequence");
  require(b.token_offsets[0] == 0 && b.block_offsets[0] == 0 && b.adapter_offsets[0] == 0,
          "the offsets of a batch start at 0");
  for (int32_t c = 0; c < b.num_chunks; c++) {
    const int32_t first = b.token_offsets[c];
    const int32_t count = b.token_offsets[c + 1] - first;
    const int32_t start = b.start_positions[c];
    const int32_t num_blocks = b.block_offsets[c + 1] - b.block_offsets[c];
    require(count >= 1 && count <= limits.max_step_tokens - num_rows(),
            "a step holds 1 to max_step_tokens tokens");
    require(start >= 0 && start <= static_cast<int32_t>(shape.max_context_tokens) - count,
            "a sequence is longer than the model's context");
    require(num_blocks >= 0 && b.adapter_offsets[c + 1] >= b.adapter_offsets[c],
            "the offsets of a batch must not fall");
    require(int64_t{num_blocks} * EL_BLOCK_TOKENS >= int64_t{start} + count,
            "a block table is too short for its sequence");
    for (int32_t i = b.block_offsets[c]; i < b.block_offsets[c + 1]; i++)
      require(b.block_tables[i] >= 0 && b.block_tables[i] < limits.num_kv_blocks,
              "a block table names a block that does not exist");
    for (int32_t a = b.adapter_offsets[c]; a < b.adapter_offsets[c + 1]; a++) {
      require(b.adapter_slots[a] >= 0 && b.adapter_slots[a] < slots_.size(),
              "there is no such adapter slot");
      require(std::isfinite(b.adapter_weights[a]), "an adapter weight is not finite");
      if (b.adapter_weights[a] == 0.0f) continue;
      for (int32_t i = 0; i < count; i++)
        by_slot[static_cast<size_t>(b.adapter_slots[a])].push_back(
            {num_rows() + i, b.adapter_weights[a]});
    }
    for (int32_t i = 0; i < count; i++) {
      const int32_t token = b.token_ids[first + i];
      require(token >= 0 && token < static_cast<int32_t>(shape.vocab_size),
              "a token id is outside the vocabulary");
      rows.push_back({token, start + i, c});
    }
    if (b.needs_logits[c]) logit_rows.push_back(num_rows() - 1);
    longest_context = std::max(longest_context, start + count);
    const auto heads = static_cast<int32_t>(shape.num_heads / shape.num_kv_heads);
    for (int32_t kv = 0; kv < static_cast<int32_t>(shape.num_kv_heads); kv++)
      for (int32_t q = 0; q < count * heads; q += query_tile)
        tiles.push_back({c, kv, q, std::min(query_tile, count * heads - q)});
  }
}

void Step::group_entries(const std::vector<std::vector<AdapterEntry>>& by_slot) {
  row_entry_offsets.assign(rows.size() + 1, 0);
  for (size_t slot = 0; slot < by_slot.size(); slot++) {
    const std::vector<AdapterEntry>& mine = by_slot[slot];
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
  for (size_t r = 0; r < rows.size(); r++) row_entry_offsets[r + 1] += row_entry_offsets[r];
  row_entries.resize(entries.size());
  std::vector<int32_t> next(row_entry_offsets.begin(), row_entry_offsets.end() - 1);
  for (size_t e = 0; e < entries.size(); e++)
    row_entries[static_cast<size_t>(next[static_cast<size_t>(entries[e].row)]++)] =
        static_cast<int32_t>(e);
}

}  // namespace edgelora
