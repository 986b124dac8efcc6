// One model, its KV cache and its adapter slots; `forward` runs one step over a ragged batch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "edgelora_native.h"
#include "kernels.h"
#include "lora_products.h"
#include "lora_slots.h"
#include "packed_file.h"
#include "sampler.h"
#include "step.h"
#include "thread_pool.h"

namespace edgelora {

// The decoder's modules, EL_Q .. EL_DOWN.
LoraShape lora_shape(const PackedHeader& shape);

class Engine {
 public:
  Engine(const std::string& path, const el_limits& limits);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  el_description describe() const;
  LoraSlots& slots() { return *slots_; }
  // Throws Error for a batch that does not fit; then nothing has run.
  void forward(const el_batch& batch, float* logits);
  // How many of the threads compute from the next step on; any number gives the same bits.
  void set_threads(int count);
  void sample(const el_sampling& sampling) { sampler_->sample(sampling, *pool_); }

 private:
  using Team = ThreadPool::Team;
  enum class Input { kHidden, kAttention, kFeedForward };

  // Activations of one step, sized for max_step_tokens at the start.
  struct Activations {
    std::vector<float> hidden, queries, cosines, sines;
    std::vector<int8_t> values[3];
    std::vector<float> scales[3], scaled_sums[3], floats[3];
    std::vector<int32_t> sums[3];
    QuantisedRows quantised[3];
    std::vector<uint8_t> is_bad;
  };
  // What one thread needs to itself.
  struct Scratch {
    std::vector<float> row, tile, gates, scores;
    std::vector<const uint8_t*> key_blocks, value_blocks;
  };

  void embed(Team& team, const Step& step);
  void normalise(Team& team, const Step& step, const TensorEntry& weight);
  void project_qkv(Team& team, const Step& step, uint32_t layer);
  void attend(Team& team, const Step& step, uint32_t layer);
  void project_add(Team& team, const Step& step, uint32_t layer, LayerTensor tensor, int module,
                   Input input);
  void feed_forward(Team& team, const Step& step, uint32_t layer);
  void project_logits(Team& team, const Step& step, float* logits);

  int unit_span(const Step& step, int count, int outputs) const;
  void multiply(const TensorEntry& entry, int block, const QuantisedRows& rows, int begin, int end,
                float* out, size_t stride) const;
  void finish_head(const Step& step, uint32_t layer, int head, int row, float* values);
  void rotate(int row, float* head) const;
  void write_key(const Step& step, uint32_t layer, int kv_head, int row, const float* key);
  void write_value(const Step& step, uint32_t layer, int kv_head, int row, const float* value);
  QuantisedRows& quantised(Input input) { return act_.quantised[static_cast<int>(input)]; }
  uint8_t* head_block(uint32_t layer, int32_t index, int kv_head, bool is_value) const;

  const PackedFile file_;
  const PackedHeader& shape_;
  const Kernels& kernels_;
  const el_limits limits_;
  const int query_size_;
  const bool is_kv_int8_;
  const size_t kv_head_bytes_;  // keys or values of one head in a block
  std::unique_ptr<LoraSlots> slots_;
  std::unique_ptr<LoraProducts> lora_;
  std::unique_ptr<ThreadPool> pool_;
  size_t kv_bytes_ = 0;
  uint8_t* kv_ = nullptr;  // [layer][block][keys, values][head]
  Activations act_;
  std::vector<Scratch> scratch_;
  std::unique_ptr<Sampler> sampler_;
};

}  // namespace edgelora
