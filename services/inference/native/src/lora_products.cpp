#include "lora_products.h"

#include <algorithm>

namespace edgelora {
namespace {

size_t as_size(int x) { return static_cast<size_t>(x); }
int num_rank_blocks(int rank) { return (rank + kLanes - 1) / kLanes; }

}  // namespace

void LoraProducts::begin_step(const AdapterRows& rows) {
  const size_t needed =
      kMaxModules * rows.entries.size() * as_size(num_rank_blocks(slots_.max_rank()));
  shrunk_.resize(std::max(shrunk_.size(), needed));
}

ThreadPool::Team::Pending LoraProducts::shrink(ThreadPool::Team& team, const AdapterRows& rows,
                                               const Phase& phase) {
  int largest_rank = 0;
  for (const int32_t slot : rows.held_slots())
    for (int m = 0; m < phase.num_modules; m++)
      largest_rank =
          std::max(largest_rank, slots_.module(slot, phase.layer, phase.modules[m]).rank);
  if (largest_rank == 0) return {};
  const int rank_blocks = num_rank_blocks(largest_rank);
  const int num_modules = phase.num_modules;
  const int num_runs = static_cast<int>(rows.runs.size());
  return team.begin(num_runs * num_modules * rank_blocks, [&](int unit) {
    const int rank_block = unit % rank_blocks;
    const int module_at = unit / rank_blocks % num_modules;
    const EntryRun& run = rows.runs[as_size(unit / rank_blocks / num_modules)];
    const LoraModule& module = slots_.module(run.slot, phase.layer, phase.modules[module_at]);
    const int first_rank = rank_block * kLanes;
    if (first_rank >= module.rank) return;
    float tile[kMaxRunRows * kLanes];
    kernels_.multiply_q8(module.a + as_size(rank_block * phase.input.groups) * kQ8GroupBytes,
                         phase.input, run.first_row, run.first_row + run.count, tile, kLanes);
    for (int i = 0; i < run.count; i++) {
      const int e = run.first_entry + i;
      kernels_.quantise_lora(tile + i * kLanes, std::min(kLanes, module.rank - first_rank),
                             rows.entries[as_size(e)].weight * module.scaling,
                             &shrunk_[shrunk_at(rows, module_at, e) + as_size(rank_block)]);
    }
  });
}

void LoraProducts::expand(const AdapterRows& rows, const Phase& phase, int module_at, int row,
                          int first_block, int num_blocks, float* out) const {
  for (int32_t i = rows.row_entry_offsets[as_size(row)];
       i < rows.row_entry_offsets[as_size(row) + 1]; i++) {
    const int e = rows.row_entries[as_size(i)];
    const LoraModule& module = slots_.module(rows.entry_slots[as_size(e)], phase.layer,
                                             phase.modules[module_at]);
    if (module.rank == 0) continue;
    kernels_.expand(module.b + as_size(first_block) * LoraModule::b_block_bytes(module.rank),
                    num_blocks, module.rank, &shrunk_[shrunk_at(rows, module_at, e)], out);
  }
}

size_t LoraProducts::shrunk_at(const AdapterRows& rows, int module_at, int entry) const {
  return (as_size(module_at) * rows.entries.size() + as_size(entry)) *
         as_size(num_rank_blocks(slots_.max_rank()));
}

}  // namespace edgelora
