#include "engine.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "error.h"

namespace edgelora {
namespace {

constexpr int kRowChunk = 32;        // rows whose intermediate results stay in the first cache
constexpr int kLogitBlocks = 8;      // blocks of 16 vocabulary entries in one unit
constexpr int kMaxUnitOutputs = 512; // outputs of one unit in all other products
constexpr int kUnitsPerThread = 2;   // when few rows make units of many outputs
constexpr int kMaxHeadSize = 512;
constexpr int kMaxQueryTile = 16;
// Calls of Team::each outside the layers, and in one layer.
constexpr int kModelPhases = 4;
constexpr int kLayerPhases = 11;

int as_int(uint32_t x) { return static_cast<int>(x); }
size_t as_size(int x) { return static_cast<size_t>(x); }

}  // namespace

LoraShape lora_shape(const PackedHeader& shape) {
  const int hidden = as_int(shape.hidden_size);
  const int query = as_int(shape.num_heads * shape.head_size);
  const int kv = as_int(shape.num_kv_heads * shape.head_size);
  const int inner = as_int(shape.feed_forward_size);
  return {as_int(shape.num_layers),
          {{query, hidden}, {kv, hidden}, {kv, hidden}, {hidden, query}, {inner, hidden},
           {inner, hidden}, {hidden, inner}}};
}

Engine::Engine(const std::string& path, const el_limits& limits)
    : file_(path),
      shape_(file_.header()),
      kernels_(choose_kernels()),
      limits_(limits),
      query_size_(as_int(shape_.num_heads * shape_.head_size)),
      is_kv_int8_(limits.kv_cache_int8 != 0),
      kv_head_bytes_(kv_head_bytes(as_int(shape_.head_size), is_kv_int8_)) {
  require(limits.num_kv_blocks >= 1 && limits.num_kv_blocks <= 1 << 24,
          "num_kv_blocks is out of range");
  require(limits.max_loras >= 0 && limits.max_loras <= 4096, "max_loras is out of range");
  require(limits.max_lora_rank >= 1 && limits.max_lora_rank <= 1024,
          "max_lora_rank is out of range");
  require(limits.max_step_tokens >= 1 && limits.max_step_tokens <= 1 << 16,
          "max_step_tokens is out of range");
  require(limits.num_threads >= 1 && limits.num_threads <= 256, "num_threads is out of range");
  slots_ = std::make_unique<LoraSlots>(lora_shape(shape_), limits.max_loras, limits.max_lora_rank);
  lora_ = std::make_unique<LoraProducts>(kernels_, *slots_);

  sampler_ = std::make_unique<Sampler>(kernels_, as_int(shape_.vocab_size), limits.num_threads);

  const size_t rows = as_size(limits.max_step_tokens);
  const int hidden = as_int(shape_.hidden_size);
  const int widths[3] = {hidden, query_size_, as_int(shape_.feed_forward_size)};
  act_.hidden.resize(rows * as_size(hidden));
  act_.queries.resize(rows * as_size(query_size_));
  act_.cosines.resize(rows * shape_.head_size / 2);
  act_.sines.resize(rows * shape_.head_size / 2);
  act_.is_bad.resize(rows);
  for (int i = 0; i < 3; i++) {
    const size_t groups = (rows + kRowTile - 1) / kRowTile * kRowTile * as_size(widths[i] / kGroup);
    act_.values[i].resize(groups * kGroup);
    act_.scales[i].resize(groups);
    act_.scaled_sums[i].resize(groups);
    act_.sums[i].resize(groups);
    act_.quantised[i] = {act_.values[i].data(), act_.scales[i].data(), act_.scaled_sums[i].data(),
                         act_.sums[i].data(), widths[i] / kGroup};
    if (!file_.has(TensorKind::kBf16)) continue;
    act_.floats[i].resize(groups * kGroup);
    act_.quantised[i].floats = act_.floats[i].data();
  }
  scratch_.resize(as_size(limits.num_threads));
  for (Scratch& scratch : scratch_) {
    scratch.tile.resize(as_size(kRowChunk) * kMaxUnitOutputs);
    scratch.gates.resize(as_size(kRowChunk) * kMaxUnitOutputs);
    scratch.row.resize(std::max(as_size(hidden), as_size(kMaxQueryTile) * shape_.head_size));
  }
  pool_ = std::make_unique<ThreadPool>(limits.num_threads,
                                       kModelPhases + kLayerPhases * as_int(shape_.num_layers));

  kv_bytes_ = as_size(limits.num_kv_blocks) * shape_.num_layers * 2 * shape_.num_kv_heads *
              kv_head_bytes_;
  void* mapped =
      ::mmap(nullptr, kv_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw Error("cannot allocate the KV cache: lower its size");
  kv_ = static_cast<uint8_t*>(mapped);
}

Engine::~Engine() { ::munmap(kv_, kv_bytes_); }

el_description Engine::describe() const {
  el_description d{};
  d.vocab_size = as_int(shape_.vocab_size);
  d.hidden_size = as_int(shape_.hidden_size);
  d.num_layers = as_int(shape_.num_layers);
  d.max_context_tokens = as_int(shape_.max_context_tokens);
  d.weights_bytes = static_cast<int64_t>(file_.size());
  d.kv_cache_bytes = static_cast<int64_t>(kv_bytes_);
  d.adapter_slots_bytes = static_cast<int64_t>(slots_->bytes());
  return d;
}

void Engine::set_threads(int count) {
  require(count >= 1 && count <= limits_.num_threads,
          "the number of threads must be 1 to that of the limits");
  pool_->set_active(count);
}

void Engine::forward(const el_batch& batch, float* logits) {
  const Step step(batch, shape_, limits_, *slots_, kernels_.query_tile);
  lora_->begin_step(step.adapters);
  const size_t context =
      as_size((step.longest_context + EL_BLOCK_TOKENS - 1) / EL_BLOCK_TOKENS * EL_BLOCK_TOKENS);
  for (Scratch& scratch : scratch_) {
    scratch.scores.resize(
        std::max(scratch.scores.size(), context * as_size(kernels_.query_tile)));
    scratch.key_blocks.resize(std::max(scratch.key_blocks.size(), context / EL_BLOCK_TOKENS));
    scratch.value_blocks.resize(scratch.key_blocks.size());
  }
  pool_->run([&](Team& team) {
    embed(team, step);
    for (uint32_t layer = 0; layer < shape_.num_layers; layer++) {
      normalise(team, step, file_.layer_tensor(layer, kAttentionNorm));
      project_qkv(team, step, layer);
      attend(team, step, layer);
      project_add(team, step, layer, kOutput, EL_O, Input::kAttention);
      normalise(team, step, file_.layer_tensor(layer, kFeedForwardNorm));
      feed_forward(team, step, layer);
      project_add(team, step, layer, kDown, EL_DOWN, Input::kFeedForward);
    }
    project_logits(team, step, logits);
  });
}

void Engine::embed(Team& team, const Step& step) {
  const TensorEntry& separate = file_.model_tensor(kEmbedding);
  const TensorEntry& table =
      separate.kind == TensorKind::kAbsent ? file_.model_tensor(kHead) : separate;
  const int groups = as_int(shape_.hidden_size) / kGroup;
  const int half = as_int(shape_.head_size) / 2;
  const float* frequencies = file_.floats(file_.model_tensor(kInverseFrequencies));
  team.each(step.num_rows(), [&](int r) {
    const Row& row = step.rows[as_size(r)];
    dequantise_row(table.kind, file_.block(table, as_size(row.token / kLanes)), row.token % kLanes,
                   groups, act_.hidden.data() + as_size(r) * shape_.hidden_size);
    for (int i = 0; i < half; i++) {
      const float angle = static_cast<float>(row.position) * frequencies[i];
      act_.cosines[as_size(r * half + i)] = std::cos(angle) * shape_.attention_factor;
      act_.sines[as_size(r * half + i)] = std::sin(angle) * shape_.attention_factor;
    }
    act_.is_bad[as_size(r)] = 0;
  });
}

void Engine::normalise(Team& team, const Step& step, const TensorEntry& weight) {
  const int hidden = as_int(shape_.hidden_size);
  const float* w = file_.floats(weight);
  team.each(step.num_rows(), [&](int r) {
    float* out = scratch_[as_size(team.index())].row.data();
    const float mean = kernels_.rms_norm(act_.hidden.data() + as_size(r) * as_size(hidden), w,
                                         hidden, shape_.norm_epsilon, out);
    // Quantising would turn NaN into numbers, so a row that went wrong is remembered here.
    if (!std::isfinite(mean)) act_.is_bad[as_size(r)] = 1;
    kernels_.quantise(out, hidden, quantised(Input::kHidden), r, 0);
  });
}

void Engine::multiply(const TensorEntry& entry, int block, const QuantisedRows& rows, int begin,
                      int end, float* out, size_t stride) const {
  kernels_.multiply(entry.kind)(file_.block(entry, as_size(block)), rows, begin, end, out, stride);
}

void Engine::project_qkv(Team& team, const Step& step, uint32_t layer) {
  static constexpr int kModules[] = {EL_Q, EL_K, EL_V};
  const LoraProducts::Phase phase{as_int(layer), kModules, 3, quantised(Input::kHidden)};
  const auto first_factors = lora_->shrink(team, step.adapters, phase);
  const TensorEntry& weights = file_.layer_tensor(layer, kQkv);
  const int head_size = as_int(shape_.head_size);
  const int head_blocks = head_size / kLanes;
  const int num_heads = as_int(shape_.num_heads);
  const int kv_heads = as_int(shape_.num_kv_heads);
  team.each(num_heads + 2 * kv_heads, [&](int unit) {
    float* tile = scratch_[as_size(team.index())].tile.data();
    const int module_at = unit < num_heads ? 0 : (unit < num_heads + kv_heads ? 1 : 2);
    const int head = unit - (module_at == 0 ? 0 : num_heads + (module_at - 1) * kv_heads);
    for (int begin = 0; begin < step.num_rows(); begin += kRowChunk) {
      const int end = std::min(begin + kRowChunk, step.num_rows());
      for (int b = 0; b < head_blocks; b++)
        multiply(weights, unit * head_blocks + b, quantised(Input::kHidden), begin, end,
                 tile + b * kLanes, as_size(head_size));
      team.wait(first_factors);
      for (int row = begin; row < end; row++) {
        float* values = tile + as_size(row - begin) * as_size(head_size);
        lora_->expand(step.adapters, phase, module_at, row, head * head_blocks, head_blocks,
                      values);
        finish_head(step, layer, unit, row, values);
      }
    }
  });
}

// Bias, norm and rotation of one head, then to its place: the query buffer or the KV cache.
void Engine::finish_head(const Step& step, uint32_t layer, int unit, int row, float* values) {
  const int head_size = as_int(shape_.head_size);
  const int num_heads = as_int(shape_.num_heads);
  const int kv_heads = as_int(shape_.num_kv_heads);
  const auto is_present = [](const TensorEntry& entry) {
    return entry.kind != TensorKind::kAbsent;
  };
  const TensorEntry& bias = file_.layer_tensor(layer, kQkvBias);
  if (is_present(bias)) kernels_.add(values, file_.floats(bias) + unit * head_size, head_size);
  if (unit >= num_heads + kv_heads) {
    write_value(step, layer, unit - num_heads - kv_heads, row, values);
    return;
  }
  const TensorEntry& norm = file_.layer_tensor(layer, unit < num_heads ? kQueryNorm : kKeyNorm);
  if (is_present(norm))
    kernels_.rms_norm(values, file_.floats(norm), head_size, shape_.norm_epsilon, values);
  rotate(row, values);
  if (unit >= num_heads) {
    write_key(step, layer, unit - num_heads, row, values);
    return;
  }
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_size));
  float* query = act_.queries.data() + as_size(row) * as_size(query_size_) + unit * head_size;
  for (int i = 0; i < head_size; i++) query[i] = values[i] * scale;
}

// Rotary position embedding, halves paired (Su et al., arXiv 2104.09864).
void Engine::rotate(int row, float* head) const {
  const int half = as_int(shape_.head_size) / 2;
  const float* cosines = act_.cosines.data() + as_size(row * half);
  const float* sines = act_.sines.data() + as_size(row * half);
  for (int i = 0; i < half; i++) {
    const float low = head[i];
    const float high = head[i + half];
    head[i] = low * cosines[i] - high * sines[i];
    head[i + half] = high * cosines[i] + low * sines[i];
  }
}

uint8_t* Engine::head_block(uint32_t layer, int32_t index, int kv_head, bool is_value) const {
  const size_t block = layer * as_size(limits_.num_kv_blocks) + as_size(index);
  const size_t head = (2 * block + (is_value ? 1 : 0)) * shape_.num_kv_heads + as_size(kv_head);
  return kv_ + head * kv_head_bytes_;
}

void Engine::write_key(const Step& step, uint32_t layer, int kv_head, int row, const float* key) {
  const Row& r = step.rows[as_size(row)];
  const int head_size = as_int(shape_.head_size);
  const int token = r.position % EL_BLOCK_TOKENS;
  uint8_t* out = head_block(layer, step.block_of(r.chunk, r.position), kv_head, false);
  if (is_kv_int8_) {
    int8_t bytes[kMaxHeadSize];
    const float scale = kernels_.store_int8(key, head_size, bytes);
    for (int d = 0; d < head_size; d++)
      out[d * EL_BLOCK_TOKENS + token] = static_cast<uint8_t>(bytes[d]);
    std::memcpy(out + head_size * EL_BLOCK_TOKENS + token * 4, &scale, sizeof scale);
    return;
  }
  uint16_t halves[kMaxHeadSize];
  kernels_.store_half(key, head_size, halves);
  auto* columns = reinterpret_cast<uint16_t*>(out);
  for (int d = 0; d < head_size; d++) columns[d * EL_BLOCK_TOKENS + token] = halves[d];
}

void Engine::write_value(const Step& step, uint32_t layer, int kv_head, int row,
                         const float* value) {
  const Row& r = step.rows[as_size(row)];
  const int head_size = as_int(shape_.head_size);
  const int token = r.position % EL_BLOCK_TOKENS;
  uint8_t* out = head_block(layer, step.block_of(r.chunk, r.position), kv_head, true);
  if (is_kv_int8_) {
    const float scale = kernels_.store_int8(
        value, head_size, reinterpret_cast<int8_t*>(out + token * head_size));
    std::memcpy(out + head_size * EL_BLOCK_TOKENS + token * 4, &scale, sizeof scale);
    return;
  }
  kernels_.store_half(value, head_size, reinterpret_cast<uint16_t*>(out) + token * head_size);
}

void Engine::attend(Team& team, const Step& step, uint32_t layer) {
  const int head_size = as_int(shape_.head_size);
  const int heads = as_int(shape_.num_heads / shape_.num_kv_heads);
  team.each(static_cast<int>(step.tiles.size()), [&](int unit) {
    const QueryTile& tile = step.tiles[as_size(unit)];
    Scratch& scratch = scratch_[as_size(team.index())];
    const float* queries[kMaxQueryTile];
    float* outputs[kMaxQueryTile];
    int32_t num_keys[kMaxQueryTile];
    const int32_t first_row = step.batch.token_offsets[tile.chunk];
    int32_t longest = 0;
    for (int i = 0; i < tile.count; i++) {
      const int32_t row = first_row + (tile.first + i) / heads;
      const int head = tile.kv_head * heads + (tile.first + i) % heads;
      queries[i] = act_.queries.data() + as_size(row) * as_size(query_size_) +
                   as_size(head * head_size);
      outputs[i] = scratch.row.data() + i * head_size;
      num_keys[i] = step.rows[as_size(row)].position + 1;
      longest = std::max(longest, num_keys[i]);
    }
    for (int32_t p = 0; p < longest; p += EL_BLOCK_TOKENS) {
      const int32_t block = step.block_of(tile.chunk, p);
      scratch.key_blocks[as_size(p / EL_BLOCK_TOKENS)] =
          head_block(layer, block, tile.kv_head, false);
      scratch.value_blocks[as_size(p / EL_BLOCK_TOKENS)] =
          head_block(layer, block, tile.kv_head, true);
    }
    const size_t stride =
        as_size((longest + EL_BLOCK_TOKENS - 1) / EL_BLOCK_TOKENS * EL_BLOCK_TOKENS);
    const auto attend_kernel = is_kv_int8_ ? kernels_.attend_int8 : kernels_.attend;
    attend_kernel({queries, outputs, num_keys, tile.count, head_size, scratch.key_blocks.data(),
                     scratch.value_blocks.data(), scratch.scores.data(), stride});
    for (int i = 0; i < tile.count; i++) {
      const int32_t row = first_row + (tile.first + i) / heads;
      const int head = tile.kv_head * heads + (tile.first + i) % heads;
      kernels_.quantise(outputs[i], head_size, quantised(Input::kAttention), row,
                        head * head_size / kGroup);
    }
  });
}

// How many of `count` things one unit covers. Few rows make units of many outputs, since what an
// adapter adds to some outputs is only some cache lines and memory gives those of many outputs
// sooner; many rows make small ones, so that their weights stay in the first cache.
int Engine::unit_span(const Step& step, int count, int outputs) const {
  if (step.num_rows() > kRowChunk) return 1;
  const int units = kUnitsPerThread * pool_->num_active();
  return std::clamp((count + units - 1) / units, 1, kMaxUnitOutputs / outputs);
}

void Engine::project_add(Team& team, const Step& step, uint32_t layer, LayerTensor tensor,
                         int module, Input input) {
  const LoraProducts::Phase phase{as_int(layer), &module, 1, quantised(input)};
  const auto first_factors = lora_->shrink(team, step.adapters, phase);
  const TensorEntry& weights = file_.layer_tensor(layer, tensor);
  const int hidden = as_int(shape_.hidden_size);
  const int span = unit_span(step, hidden / kLanes, kLanes);
  team.each((hidden / kLanes + span - 1) / span, [&](int unit) {
    float* tile = scratch_[as_size(team.index())].tile.data();
    const int first = unit * span;
    const int num_blocks = std::min(span, hidden / kLanes - first);
    const int width = num_blocks * kLanes;
    for (int begin = 0; begin < step.num_rows(); begin += kRowChunk) {
      const int end = std::min(begin + kRowChunk, step.num_rows());
      for (int b = 0; b < num_blocks; b++)
        multiply(weights, first + b, quantised(input), begin, end, tile + b * kLanes,
                 as_size(width));
      team.wait(first_factors);
      for (int row = begin; row < end; row++) {
        float* out = tile + (row - begin) * width;
        lora_->expand(step.adapters, phase, 0, row, first, num_blocks, out);
        kernels_.add(act_.hidden.data() + as_size(row) * as_size(hidden) + first * kLanes, out,
                     width);
      }
    }
  });
}

void Engine::feed_forward(Team& team, const Step& step, uint32_t layer) {
  static constexpr int kModules[] = {EL_GATE, EL_UP};
  const LoraProducts::Phase phase{as_int(layer), kModules, 2, quantised(Input::kHidden)};
  const auto first_factors = lora_->shrink(team, step.adapters, phase);
  const TensorEntry& weights = file_.layer_tensor(layer, kGateUp);
  constexpr int kBlocks = kGroup / kLanes;  // blocks of one quantisation group
  const int num_groups = as_int(shape_.feed_forward_size) / kGroup;
  const int span = unit_span(step, num_groups, kGroup);
  team.each((num_groups + span - 1) / span, [&](int unit) {
    Scratch& scratch = scratch_[as_size(team.index())];
    float* gates = scratch.gates.data();
    float* ups = scratch.tile.data();
    const int first = unit * span * kBlocks;
    const int num_blocks = std::min(span, num_groups - unit * span) * kBlocks;
    const int width = num_blocks * kLanes;
    for (int begin = 0; begin < step.num_rows(); begin += kRowChunk) {
      const int end = std::min(begin + kRowChunk, step.num_rows());
      for (int b = 0; b < num_blocks; b++) {
        const int pair = 2 * (first + b);
        multiply(weights, pair, quantised(Input::kHidden), begin, end, gates + b * kLanes,
                 as_size(width));
        multiply(weights, pair + 1, quantised(Input::kHidden), begin, end, ups + b * kLanes,
                 as_size(width));
      }
      team.wait(first_factors);
      for (int row = begin; row < end; row++) {
        float* gate = gates + (row - begin) * width;
        float* up = ups + (row - begin) * width;
        lora_->expand(step.adapters, phase, 0, row, first, num_blocks, gate);
        lora_->expand(step.adapters, phase, 1, row, first, num_blocks, up);
        kernels_.silu_times(gate, up, width, gate);
        kernels_.quantise(gate, width, quantised(Input::kFeedForward), row, first / kBlocks);
      }
    }
  });
}

void Engine::project_logits(Team& team, const Step& step, float* logits) {
  const int count = static_cast<int>(step.logit_rows.size());
  if (count == 0) return;
  const int hidden = as_int(shape_.hidden_size);
  const float* norm = file_.floats(file_.model_tensor(kFinalNorm));
  QuantisedRows& rows = quantised(Input::kHidden);
  team.each(count, [&](int i) {
    const int row = step.logit_rows[as_size(i)];
    float* out = scratch_[as_size(team.index())].row.data();
    const float mean = kernels_.rms_norm(act_.hidden.data() + as_size(row) * as_size(hidden), norm,
                                         hidden, shape_.norm_epsilon, out);
    if (!std::isfinite(mean)) act_.is_bad[as_size(row)] = 1;
    kernels_.quantise(out, hidden, rows, i, 0);
  });
  const TensorEntry& head = file_.model_tensor(kHead);
  const int blocks = as_int(shape_.vocab_size) / kLanes;
  const size_t vocab = shape_.vocab_size;
  team.each((blocks + kLogitBlocks - 1) / kLogitBlocks, [&](int unit) {
    const int end = std::min((unit + 1) * kLogitBlocks, blocks);
    for (int b = unit * kLogitBlocks; b < end; b++)
      multiply(head, b, rows, 0, count, logits + b * kLanes, vocab);
  });
  team.each(count, [&](int i) {
    if (act_.is_bad[as_size(step.logit_rows[as_size(i)])])
      std::fill_n(logits + as_size(i) * vocab, vocab, std::numeric_limits<float>::quiet_NaN());
  });
}

}  // namespace edgelora
