// One BERT-type model and its adapter slots; `encode` runs one step over a batch of whole texts.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "edgelora_encoder.h"
#include "encoder_file.h"
#include "encoder_step.h"
#include "kernels.h"
#include "lora_products.h"
#include "lora_slots.h"
#include "quantised_buffer.h"
#include "thread_pool.h"

namespace edgelora {

// The encoder's modules, EL_QUERY .. EL_OUTPUT.
LoraShape lora_shape(const EncoderFile& file);

class Encoder {
 public:
  Encoder(const std::string& path, const el_encoder_limits& limits);

  el_encoder_description describe() const;
  LoraSlots& slots() { return slots_; }
  // Throws Error for a batch that does not fit; then nothing has run.
  void encode(const el_texts& texts, float* vectors);

 private:
  using Team = ThreadPool::Team;
  // What one thread needs to itself.
  struct Scratch {
    std::vector<float> tile, scaled, queries, keys, values, outputs, scores;
    std::vector<const uint8_t*> key_blocks, value_blocks;
  };
  // One matrix, which may hold several modules of equal size.
  struct Product {
    const TensorEntry& weights;
    const float* bias;
    LoraProducts::Phase phase;
    int module_blocks;  // of 16 outputs
    float* out;         // [rows][outputs]; null: a tile of the thread
  };

  void make_room(const EncoderStep& step);
  void embed(Team& team, const EncoderStep& step);
  void project_qkv(Team& team, const EncoderStep& step, int layer);
  void attend(Team& team, const EncoderStep& step);
  void project_hidden(Team& team, const EncoderStep& step, int layer, EncoderLayerTensor weights,
                      EncoderLayerTensor bias, const int& module, const QuantisedBuffer& input);
  void add_and_normalise(Team& team, const EncoderStep& step, const float* weight,
                         const float* bias, const float* factors);
  void quantise_hidden(const Team& team, int row, const float* factors);
  // Of the inputs of a layer; null behind the last one.
  const float* layer_factors(int layer) const;
  void feed_forward(Team& team, const EncoderStep& step, int layer);
  void pool(Team& team, const EncoderStep& step, float* vectors);

  // Calls finish(row, first_output, num_outputs, values) for all rows and outputs.
  template <typename Finish>
  void multiply(Team& team, const EncoderStep& step, const Product& product, Finish&& finish);
  void gather_head(const EncoderStep& step, int text, int head, Scratch& scratch) const;
  void attend_head(const EncoderStep& step, int text, int head, Scratch& scratch) const;
  void pool_first(int row, float* out) const;
  Scratch& scratch(const Team& team) { return scratch_[static_cast<size_t>(team.index())]; }
  const TensorEntry& tensor(int layer, EncoderLayerTensor one) const {
    return file_.layer_tensor(layer, one);
  }
  const float* floats(int layer, EncoderLayerTensor one) const {
    return file_.floats(tensor(layer, one));
  }
  float* hidden_row(int row) {
    return hidden_.data() + static_cast<size_t>(row) * static_cast<size_t>(hidden_size_);
  }

  const EncoderFile file_;
  const EncoderHeader& shape_;
  const Kernels& kernels_;
  const el_encoder_limits limits_;
  const int hidden_size_;
  const int head_size_;
  LoraSlots slots_;
  LoraProducts lora_;
  ThreadPool pool_;
  QuantisedBuffer hidden_input_, attention_input_, feed_forward_input_;
  std::vector<float> hidden_, projected_, qkv_;  // [rows][outputs]
  std::vector<Scratch> scratch_;
};

}  // namespace edgelora
