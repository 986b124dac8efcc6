// Adapter slots: address space reserved once for max_loras adapters of max_lora_rank.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "edgelora_native.h"
#include "encoded_adapter.h"

namespace edgelora {

// One module of one adapter as the kernels read it, in signed bytes with half-precision scales:
// a step reads every adapter of its rows once, so their bytes are what many adapters cost.
// Rank 0: the module is not adapted.
struct LoraModule {
  int rank = 0;
  float scaling = 0.0f;
  // Q8 blocks as in kernels.h: ceil(rank / 16) blocks of `in` inputs; rows beyond the rank are 0.
  uint8_t* a = nullptr;
  // out / 16 blocks: half scale[16], one for each output, then ceil(rank / 4) times 64 bytes; byte
  // (output, j) of part p belongs to rank 4p + j. value = scale * (byte - 128)
  uint8_t* b = nullptr;

  static size_t b_block_bytes(int rank) { return 32 + (static_cast<size_t>(rank) + 3) / 4 * 64; }
};

// The linear modules that adapters of a model may change: the same in every layer.
struct LoraShape {
  struct Module {
    int out;
    int in;
  };
  int num_layers;
  std::vector<Module> modules;  // by number
  // What a module's inputs were multiplied by, [layer][module]; null: they are as they were. Empty:
  // all are.
  std::vector<const float*> input_factors = {};
};

// Loading and unloading may run beside a step: a slot is readable only between the end of `load`
// and the start of `unload`, and `unload` refuses while a step holds the slot.
class LoraSlots {
 public:
  LoraSlots(LoraShape shape, int max_loras, int max_rank);
  ~LoraSlots();
  LoraSlots(const LoraSlots&) = delete;
  LoraSlots& operator=(const LoraSlots&) = delete;

  int size() const { return max_loras_; }
  size_t bytes() const { return slot_bytes_ * static_cast<size_t>(max_loras_); }
  const LoraModule& module(int slot, int layer, int module) const {
    return modules_[index(slot, layer, module)];
  }
  int in_features(int module) const { return shape_.modules[static_cast<size_t>(module)].in; }
  int out_features(int module) const { return shape_.modules[static_cast<size_t>(module)].out; }
  int num_modules() const { return static_cast<int>(shape_.modules.size()); }
  int max_rank() const { return max_rank_; }

  // Holds a slot for one step; false when it is not loaded. Each true needs one `release`.
  bool hold(int slot);
  void release(int slot);

  // Checks everything before it writes anything; throws Error. Returns the bytes the slot holds.
  size_t load(int slot, const el_lora_pair* pairs, int num_pairs);
  size_t load_encoded(int slot, const uint8_t* data, size_t size);
  // An empty slot may be emptied again. With `keep_pages` the memory stays, unreadable, for the
  // next load, which then need not wait for the system to find some.
  void unload(int slot, bool keep_pages = false);

 private:
  enum State : int { kEmpty, kChanging, kLoaded };
  struct Guard {
    std::atomic<int> state{kEmpty};
    std::atomic<int> holders{0};
  };

  size_t index(int slot, int layer, int module) const {
    return (static_cast<size_t>(slot) * num_layers_ + static_cast<size_t>(layer)) *
               shape_.modules.size() +
           static_cast<size_t>(module);
  }
  Guard& guard(int slot) const { return guards_[static_cast<size_t>(slot)]; }
  void check_pairs(const el_lora_pair* pairs, int num_pairs) const;
  // Row `row` of A for the inputs as they are.
  void read_a_row(const el_lora_pair& pair, int row, std::vector<float>& out) const;
  void check_fit(const EncodedModule& module) const;
  void begin_load(int slot);
  void end_load(int slot, size_t used);
  void free_pages(int slot, size_t from);
  // Places the factors of a module behind those before it; `used` counts their bytes.
  LoraModule& place(int slot, int layer, int module, int rank, float scaling, size_t& used);
  static size_t a_bytes(int rank, int in);
  static size_t b_bytes(int rank, int out);

  const LoraShape shape_;
  const size_t num_layers_;
  const int max_loras_;
  const int max_rank_;
  size_t slot_bytes_ = 0;
  void* mapped_ = nullptr;
  uint8_t* memory_ = nullptr;  // in what is mapped
  std::vector<LoraModule> modules_;
  std::vector<size_t> touched_bytes_;  // of each slot's memory
  std::unique_ptr<Guard[]> guards_;
};

}  // namespace edgelora
