#include "encoder.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>

#include "error.h"
#include "half.h"

namespace edgelora {
namespace {

constexpr int kRowChunk = 32;        // rows whose intermediate results stay in the first cache
constexpr int kMaxUnitBlocks = 8;    // blocks of 16 outputs of one unit
constexpr int kUnitsPerThread = 4;
constexpr int kMaxQueryTile = 16;
// Calls of Team::each outside the layers, and in one layer.
constexpr int kModelPhases = 2;
constexpr int kLayerPhases = 11;

constexpr int kQkvModules[] = {EL_QUERY, EL_KEY, EL_VALUE};
constexpr int kAttentionModule = EL_ATTENTION_OUTPUT;
constexpr int kIntermediateModule = EL_INTERMEDIATE;
constexpr int kOutputModule = EL_OUTPUT;

int as_int(uint32_t x) { return static_cast<int>(x); }
size_t as_size(int x) { return static_cast<size_t>(x); }
int num_blocks_of(int tokens) { return (tokens + kBlockTokens - 1) / kBlockTokens; }

const el_encoder_limits& checked(const el_encoder_limits& limits) {
  require(limits.max_loras >= 0 && limits.max_loras <= 4096, "max_loras is out of range");
  require(limits.max_lora_rank >= 1 && limits.max_lora_rank <= 1024,
          "max_lora_rank is out of range");
  require(limits.max_step_tokens >= 1 && limits.max_step_tokens <= 1 << 16,
          "max_step_tokens is out of range");
  require(limits.num_threads >= 1 && limits.num_threads <= 256, "num_threads is out of range");
  return limits;
}

// A row of the table of words: groups of a half-precision scale and 32 signed bytes.
void add_word(const uint8_t* row, int groups, float* out) {
  for (int g = 0; g < groups; g++, row += kRowGroupBytes, out += kGroup) {
    uint16_t scale_half;
    std::memcpy(&scale_half, row, sizeof scale_half);
    const float scale = half_to_float(scale_half);
    int8_t bytes[kGroup];
    std::memcpy(bytes, row + sizeof scale_half, kGroup);
    for (int i = 0; i < kGroup; i++) out[i] += scale * static_cast<float>(bytes[i]);
  }
}

}  // namespace

LoraShape lora_shape(const EncoderFile& file) {
  const EncoderHeader& shape = file.header();
  const int hidden = as_int(shape.hidden_size);
  const int inner = as_int(shape.feed_forward_size);
  std::vector<const float*> factors;
  for (int layer = 0; layer < as_int(shape.num_layers); layer++) {
    const float* qkv = file.floats(file.layer_tensor(layer, kQkvFactors));
    const float* intermediate = file.floats(file.layer_tensor(layer, kIntermediateFactors));
    factors.insert(factors.end(), {qkv, qkv, qkv, nullptr, intermediate, nullptr});
  }
  return {as_int(shape.num_layers),
          {{hidden, hidden}, {hidden, hidden}, {hidden, hidden}, {hidden, hidden},
           {inner, hidden}, {hidden, inner}},
          std::move(factors)};
}

Encoder::Encoder(const std::string& path, const el_encoder_limits& limits)
    : file_(path),
      shape_(file_.header()),
      kernels_(choose_kernels()),
      limits_(checked(limits)),
      hidden_size_(as_int(shape_.hidden_size)),
      head_size_(as_int(shape_.head_size())),
      slots_(lora_shape(file_), limits.max_loras, limits.max_lora_rank),
      lora_(kernels_, slots_),
      pool_(limits.num_threads, kModelPhases + kLayerPhases * as_int(shape_.num_layers)),
      hidden_input_(as_size(limits.max_step_tokens), hidden_size_),
      attention_input_(as_size(limits.max_step_tokens), hidden_size_),
      feed_forward_input_(as_size(limits.max_step_tokens), as_int(shape_.feed_forward_size)),
      scratch_(as_size(limits.num_threads)) {
  const size_t values = as_size(limits.max_step_tokens) * as_size(hidden_size_);
  hidden_.resize(values);
  projected_.resize(values);
  qkv_.resize(3 * values);
  for (Scratch& scratch : scratch_) {
    scratch.tile.resize(as_size(kRowChunk * kMaxUnitBlocks * kLanes));
    scratch.scaled.resize(as_size(hidden_size_));
    scratch.outputs.resize(as_size(kMaxQueryTile * head_size_));
  }
}

el_encoder_description Encoder::describe() const {
  el_encoder_description d{};
  d.vocab_size = as_int(shape_.vocab_size);
  d.hidden_size = hidden_size_;
  d.num_layers = as_int(shape_.num_layers);
  d.max_context_tokens = as_int(shape_.max_context_tokens);
  d.has_pooler = file_.has_pooler() ? 1 : 0;
  d.weights_bytes = static_cast<int64_t>(file_.size());
  d.adapter_slots_bytes = static_cast<int64_t>(slots_.bytes());
  return d;
}

void Encoder::encode(const el_texts& texts, float* vectors) {
  const EncoderStep step(texts, file_, limits_, slots_);
  make_room(step);
  lora_.begin_step(step.adapters);
  pool_.run([&](Team& team) {
    embed(team, step);
    for (int layer = 0; layer < as_int(shape_.num_layers); layer++) {
      project_qkv(team, step, layer);
      attend(team, step);
      project_hidden(team, step, layer, kAttentionDense, kAttentionDenseBias, kAttentionModule,
                     attention_input_);
      add_and_normalise(team, step, floats(layer, kAttentionNormWeight),
                        floats(layer, kAttentionNormBias), floats(layer, kIntermediateFactors));
      feed_forward(team, step, layer);
      project_hidden(team, step, layer, kOutputDense, kOutputDenseBias, kOutputModule,
                     feed_forward_input_);
      add_and_normalise(team, step, floats(layer, kOutputNormWeight),
                        floats(layer, kOutputNormBias), layer_factors(layer + 1));
    }
    pool(team, step, vectors);
  });
}

// Attention needs room for one head of the longest text.
void Encoder::make_room(const EncoderStep& step) {
  const size_t blocks = as_size(num_blocks_of(step.longest_text));
  const size_t tokens = blocks * kBlockTokens;
  const size_t values = tokens * as_size(head_size_);
  for (Scratch& scratch : scratch_) {
    if (scratch.key_blocks.size() >= blocks) continue;
    scratch.queries.resize(values);
    scratch.keys.resize(values);
    scratch.values.resize(values);
    scratch.scores.resize(tokens * as_size(kernels_.query_tile));
    scratch.key_blocks.resize(blocks);
    scratch.value_blocks.resize(blocks);
    const size_t block_values = as_size(kBlockTokens * head_size_);
    for (size_t b = 0; b < blocks; b++) {
      scratch.key_blocks[b] =
          reinterpret_cast<const uint8_t*>(scratch.keys.data() + b * block_values);
      scratch.value_blocks[b] =
          reinterpret_cast<const uint8_t*>(scratch.values.data() + b * block_values);
    }
  }
}

void Encoder::embed(Team& team, const EncoderStep& step) {
  const int groups = hidden_size_ / kGroup;
  const uint8_t* words = file_.bytes(file_.model_tensor(kWords));
  const float* positions = file_.floats(file_.model_tensor(kPositions));
  const float* weight = file_.floats(file_.model_tensor(kEmbeddingNormWeight));
  const float* bias = file_.floats(file_.model_tensor(kEmbeddingNormBias));
  team.each(step.num_rows(), [&](int row) {
    float* out = hidden_row(row);
    const int32_t position = step.positions[as_size(row)];
    std::copy_n(positions + as_size(position) * as_size(hidden_size_), hidden_size_, out);
    add_word(words + as_size(step.texts.token_ids[row]) * as_size(groups) * kRowGroupBytes, groups,
             out);
    kernels_.layer_norm(out, nullptr, weight, bias, hidden_size_, shape_.norm_epsilon);
    quantise_hidden(team, row, layer_factors(0));
  });
}

template <typename Finish>
void Encoder::multiply(Team& team, const EncoderStep& step, const Product& product,
                       Finish&& finish) {
  const auto first_factors = lora_.shrink(team, step.adapters, product.phase);
  const int num_modules = product.phase.num_modules;
  const int stride = num_modules * product.module_blocks * kLanes;
  // Of an even number of blocks: what comes next quantises groups of two.
  const int wanted = num_modules * product.module_blocks / (kUnitsPerThread * pool_.num_active());
  const int span = std::clamp(wanted / 2 * 2, 2, kMaxUnitBlocks);
  const int units = (product.module_blocks + span - 1) / span;
  team.each(num_modules * units, [&](int unit) {
    const int module_at = unit / units;
    const int first = unit % units * span;
    const int num_blocks = std::min(span, product.module_blocks - first);
    const int first_block = module_at * product.module_blocks + first;
    const int width = num_blocks * kLanes;
    for (int begin = 0; begin < step.num_rows(); begin += kRowChunk) {
      const int end = std::min(begin + kRowChunk, step.num_rows());
      float* out = scratch(team).tile.data();
      size_t out_stride = as_size(width);
      if (product.out != nullptr) {
        out = product.out + as_size(begin) * as_size(stride) + first_block * kLanes;
        out_stride = as_size(stride);
      }
      for (int b = 0; b < num_blocks; b++)
        kernels_.multiply_q8(file_.block(product.weights, as_size(first_block + b)),
                             product.phase.input, begin, end, out + b * kLanes, out_stride);
      team.wait(first_factors);
      for (int row = begin; row < end; row++, out += out_stride) {
        lora_.expand(step.adapters, product.phase, module_at, row, first, num_blocks, out);
        kernels_.add(out, product.bias + first_block * kLanes, width);
        finish(row, first_block * kLanes, width, out);
      }
    }
  });
}

void Encoder::project_qkv(Team& team, const EncoderStep& step, int layer) {
  multiply(team, step,
           {tensor(layer, kEncoderQkv),
            floats(layer, kEncoderQkvBias),
            {layer, kQkvModules, 3, hidden_input_.rows()},
            hidden_size_ / kLanes,
            qkv_.data()},
           [](int, int, int, float*) {});
}

void Encoder::attend(Team& team, const EncoderStep& step) {
  const int num_heads = as_int(shape_.num_heads);
  team.each(step.texts.num_texts * num_heads, [&](int unit) {
    Scratch& own = scratch(team);
    gather_head(step, unit / num_heads, unit % num_heads, own);
    attend_head(step, unit / num_heads, unit % num_heads, own);
  });
}

// Queries, keys and values of one head as the attention kernel reads them.
void Encoder::gather_head(const EncoderStep& step, int text, int head, Scratch& scratch) const {
  const float scale = 1.0f / std::sqrt(static_cast<float>(head_size_));
  for (int i = 0; i < step.length(text); i++) {
    const float* query = qkv_.data() +
                         as_size(step.first_row(text) + i) * 3 * as_size(hidden_size_) +
                         head * head_size_;
    const float* key = query + hidden_size_;
    const size_t block = as_size(i / kBlockTokens * kBlockTokens * head_size_);
    float* columns = scratch.keys.data() + block + i % kBlockTokens;
    float* queries = scratch.queries.data() + i * head_size_;
    for (int d = 0; d < head_size_; d++) {
      queries[d] = query[d] * scale;
      columns[d * kBlockTokens] = key[d];
    }
    std::copy_n(key + hidden_size_, head_size_, scratch.values.data() + i * head_size_);
  }
}

void Encoder::attend_head(const EncoderStep& step, int text, int head, Scratch& scratch) const {
  const int count = step.length(text);
  const float* queries[kMaxQueryTile];
  float* outputs[kMaxQueryTile];
  int32_t num_keys[kMaxQueryTile];
  for (int i = 0; i < kernels_.query_tile; i++) {
    outputs[i] = scratch.outputs.data() + i * head_size_;
    num_keys[i] = count;
  }
  for (int first = 0; first < count; first += kernels_.query_tile) {
    const int n = std::min(kernels_.query_tile, count - first);
    for (int i = 0; i < n; i++) queries[i] = scratch.queries.data() + (first + i) * head_size_;
    kernels_.attend_float({queries, outputs, num_keys, n, head_size_, scratch.key_blocks.data(),
                           scratch.value_blocks.data(), scratch.scores.data(),
                           as_size(num_blocks_of(count) * kBlockTokens)});
    for (int i = 0; i < n; i++)
      kernels_.quantise(outputs[i], head_size_, attention_input_.rows(),
                        step.first_row(text) + first + i, head * head_size_ / kGroup);
  }
}

void Encoder::project_hidden(Team& team, const EncoderStep& step, int layer,
                             EncoderLayerTensor weights, EncoderLayerTensor bias,
                             const int& module, const QuantisedBuffer& input) {
  multiply(team, step,
           {tensor(layer, weights),
            floats(layer, bias),
            {layer, &module, 1, input.rows()},
            hidden_size_ / kLanes,
            projected_.data()},
           [](int, int, int, float*) {});
}

void Encoder::add_and_normalise(Team& team, const EncoderStep& step, const float* weight,
                                const float* bias, const float* factors) {
  team.each(step.num_rows(), [&](int row) {
    kernels_.layer_norm(hidden_row(row),
                        projected_.data() + as_size(row) * as_size(hidden_size_), weight, bias,
                        hidden_size_, shape_.norm_epsilon);
    quantise_hidden(team, row, factors);
  });
}

// Few of the values are much larger than the others; the factors bring them together, and the
// matrices that follow are divided by them.
void Encoder::quantise_hidden(const Team& team, int row, const float* factors) {
  const float* values = hidden_row(row);
  if (factors != nullptr) {
    float* scaled = scratch(team).scaled.data();
    kernels_.scale(values, factors, hidden_size_, scaled);
    values = scaled;
  }
  kernels_.quantise(values, hidden_size_, hidden_input_.rows(), row, 0);
}

const float* Encoder::layer_factors(int layer) const {
  return layer < as_int(shape_.num_layers) ? floats(layer, kQkvFactors) : nullptr;
}

void Encoder::feed_forward(Team& team, const EncoderStep& step, int layer) {
  const auto gelu = shape_.gelu == Gelu::kErf ? kernels_.gelu : kernels_.gelu_tanh;
  multiply(team, step,
           {tensor(layer, kIntermediate),
            floats(layer, kIntermediateBias),
            {layer, &kIntermediateModule, 1, hidden_input_.rows()},
            as_int(shape_.feed_forward_size) / kLanes,
            nullptr},
           [&](int row, int first, int count, float* values) {
             gelu(values, count);
             kernels_.quantise(values, count, feed_forward_input_.rows(), row, first / kGroup);
           });
}

void Encoder::pool(Team& team, const EncoderStep& step, float* vectors) {
  team.each(step.texts.num_texts, [&](int text) {
    float* out = vectors + as_size(text) * as_size(hidden_size_);
    const int first = step.first_row(text);
    std::copy_n(hidden_row(first), hidden_size_, out);
    if (step.texts.poolings[text] == EL_POOL_MEAN) {
      for (int i = 1; i < step.length(text); i++) kernels_.add(out, hidden_row(first + i), hidden_size_);
      const float share = 1.0f / static_cast<float>(step.length(text));
      for (int i = 0; i < hidden_size_; i++) out[i] *= share;
    } else if (step.texts.poolings[text] == EL_POOL_POOLER) {
      pool_first(first, out);
    }
    const bool is_finite =
        std::all_of(out, out + hidden_size_, [](float x) { return std::isfinite(x); });
    if (!is_finite) std::fill_n(out, hidden_size_, std::numeric_limits<float>::quiet_NaN());
  });
}

// BERT's pooler: a dense layer and tanh.
void Encoder::pool_first(int row, float* out) const {
  for (int b = 0; b < hidden_size_ / kLanes; b++)
    kernels_.multiply_q8(file_.block(file_.model_tensor(kPooler), as_size(b)), hidden_input_.rows(),
                         row, row + 1, out + b * kLanes, as_size(hidden_size_));
  kernels_.add(out, file_.floats(file_.model_tensor(kPoolerBias)), hidden_size_);
  kernels_.tanh(out, hidden_size_);
}

}  // namespace edgelora
