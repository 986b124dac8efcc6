// The products of a step's rows with their adapters' factors.
#pragma once

#include <vector>

#include "adapter_rows.h"
#include "kernels.h"
#include "lora_slots.h"
#include "thread_pool.h"

namespace edgelora {

class LoraProducts {
 public:
  // Modules of one layer that read the same input.
  struct Phase {
    int layer;
    const int* modules;
    int num_modules;  // at most kMaxModules
    const QuantisedRows& input;
  };
  static constexpr int kMaxModules = 3;

  LoraProducts(const Kernels& kernels, const LoraSlots& slots) : kernels_(kernels), slots_(slots) {}

  // Makes room for the results of a step.
  void begin_step(const AdapterRows& rows);
  // The first factor of all adapters of the step: weight * scaling * A x. Base products go on
  // beside it; only `expand` has to wait.
  ThreadPool::Team::Pending shrink(ThreadPool::Team& team, const AdapterRows& rows,
                                   const Phase& phase);
  // Adds B times the shrunk inputs of a row's adapters to `num_blocks` blocks of 16 outputs.
  // `module_at`: the module's place in the phase.
  void expand(const AdapterRows& rows, const Phase& phase, int module_at, int row, int first_block,
              int num_blocks, float* out) const;

 private:
  size_t shrunk_at(const AdapterRows& rows, int module_at, int entry) const;

  const Kernels& kernels_;
  const LoraSlots& slots_;
  std::vector<LoraInput> shrunk_;  // [module of the phase][entry][blocks of 16 ranks]
};

}  // namespace edgelora
