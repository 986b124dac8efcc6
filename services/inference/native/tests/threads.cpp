// The number of threads changes between steps, and the bits do not.
#include "adapters.h"
#include "script.h"

namespace edgelora::check {
namespace {

constexpr int32_t kMostThreads = 4;
constexpr el_limits kLimits{16, 1, 8, 48, kMostThreads, 0};

}  // namespace

void run_threads(const std::string& model, int num_steps) {
  const PackedFile file(model);
  const EnginePointer engine = must_open(model, kLimits);
  must(load(engine.get(), 0, Adapter(file.header(), 3, 8, all_modules()).pairs));
  const std::vector<Chunk> decode{{{1}, 0, {0}, {{0, 1.0f}}}, {{2}, 0, {1}, {}}};
  std::vector<Chunk> prefill = decode;
  prefill.push_back({std::vector<int32_t>(40, 3), 0, blocks(2, 3), {{0, 0.5f}}});
  const std::vector<float> decoded = must_forward(engine.get(), decode);
  const std::vector<float> prefilled = must_forward(engine.get(), prefill);

  Numbers numbers(5);
  for (int i = 0; i < num_steps; i++) {
    must(set_threads(engine.get(), static_cast<int32_t>(1 + numbers.below(kMostThreads))));
    // Often the threads are already in the step when they are counted anew, often still asleep.
    for (uint32_t steps = numbers.below(4); steps > 0; steps--)
      expect(must_forward(engine.get(), decode) == decoded, "decoding gives the same bits");
    if (i % 3 == 0)
      expect(must_forward(engine.get(), prefill) == prefilled, "so does a prompt");
  }
}

}  // namespace edgelora::check
