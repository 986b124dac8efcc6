// Every mistake a caller can make is refused with a text, and changes nothing.
#include <cmath>
#include <limits>

#include "adapters.h"
#include "script.h"

namespace edgelora::check {
namespace {

constexpr el_limits kLimits{12, 3, 8, 48, 2, 0};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
constexpr float kInfinity = std::numeric_limits<float>::infinity();

void expect_refusal(const Refusal& refusal, const std::string& part) {
  expect(refusal.find(part) != std::string::npos,
         "a refusal with \"" + part + "\", got \"" + refusal + "\"");
}

void refuse_limits(const std::string& model) {
  const auto with = [](auto change) {
    el_limits limits = kLimits;
    change(limits);
    return limits;
  };
  const std::pair<el_limits, const char*> cases[] = {
      {with([](el_limits& l) { l.num_kv_blocks = 0; }), "num_kv_blocks"},
      {with([](el_limits& l) { l.num_kv_blocks = -5; }), "num_kv_blocks"},
      {with([](el_limits& l) { l.num_kv_blocks = INT32_MAX; }), "num_kv_blocks"},
      {with([](el_limits& l) { l.max_loras = -1; }), "max_loras"},
      {with([](el_limits& l) { l.max_loras = INT32_MAX; }), "max_loras"},
      {with([](el_limits& l) { l.max_lora_rank = 0; }), "max_lora_rank"},
      {with([](el_limits& l) { l.max_lora_rank = INT32_MAX; }), "max_lora_rank"},
      {with([](el_limits& l) { l.max_step_tokens = 0; }), "max_step_tokens"},
      {with([](el_limits& l) { l.max_step_tokens = INT32_MAX; }), "max_step_tokens"},
      {with([](el_limits& l) { l.num_threads = -1; }), "num_threads"},
      {with([](el_limits& l) { l.num_threads = INT32_MAX; }), "num_threads"},
  };
  for (const auto& [limits, name] : cases) {
    Refusal refusal;
    expect(open(model, limits, refusal) == nullptr, "limits out of range open nothing");
    expect_refusal(refusal, name);
  }
  Refusal refusal;
  expect(open(model + ".missing", kLimits, refusal) == nullptr, "a missing file opens nothing");
  expect_refusal(refusal, "cannot open");
  expect(open("/", kLimits, refusal) == nullptr, "a directory opens nothing");
  expect_refusal(refusal, "no regular file");
  char error[64] = "";
  expect(el_open(model.c_str(), nullptr, error, sizeof error) == nullptr, "no limits");
  expect_refusal(error, "limits");
}

void refuse_adapters(el_engine* engine, const PackedHeader& shape) {
  const auto load_changed = [&](int32_t slot, auto change) {
    Adapter adapter(shape, 5, 8, all_modules());
    change(adapter.pairs);
    return load(engine, slot, adapter.pairs);
  };
  using Pairs = std::vector<el_lora_pair>;
  const auto as_it_is = [](Pairs&) {};
  expect_refusal(load_changed(-1, as_it_is), "no such adapter slot");
  expect_refusal(load_changed(3, as_it_is), "no such adapter slot");
  expect_refusal(load_changed(0, as_it_is), "taken");
  expect_refusal(load_changed(1, [](Pairs& p) { p.clear(); }), "at least one module");
  expect_refusal(load_changed(1, [](Pairs& p) { p[1].rank = 9; }), "rank");
  expect_refusal(load_changed(1, [](Pairs& p) { p[1].rank = 0; }), "rank");
  expect_refusal(load_changed(1, [](Pairs& p) { p[1].rank = INT32_MIN; }), "rank");
  expect_refusal(load_changed(1, [](Pairs& p) { p[1].in_features += 32; }), "sizes");
  expect_refusal(load_changed(1, [](Pairs& p) { p[1].out_features -= 16; }), "sizes");
  expect_refusal(load_changed(1, [](Pairs& p) { p[1].layer = 1 << 20; }), "out of range");
  expect_refusal(load_changed(1, [](Pairs& p) { p[1].layer = -1; }), "out of range");
  expect_refusal(load_changed(1, [](Pairs& p) { p[1].module = EL_NUM_MODULES; }), "out of range");
  expect_refusal(load_changed(1, [](Pairs& p) { p[1].module = -1; }), "out of range");
  expect_refusal(load_changed(1, [](Pairs& p) { p[1] = p[0]; }), "twice");
  expect_refusal(load_changed(1, [](Pairs& p) { p[1].lora_b = nullptr; }), "missing");
  expect_refusal(load_changed(1, [](Pairs& p) { p[1].scaling = kNan; }), "scaling");
  for (const float value : {kNan, kInfinity, -kInfinity, 1e30f}) {
    // The last value of the last factor: everything is read before anything is written.
    std::vector<float> factor(size_t{8} * shape.feed_forward_size, 0.5f);
    factor[8 * shape.hidden_size - 1] = value;
    expect_refusal(load_changed(1, [&](Pairs& p) { p.back().lora_b = factor.data(); }), "finite");
    factor.back() = value;
    expect_refusal(load_changed(1, [&](Pairs& p) { p.back().lora_a = factor.data(); }), "finite");
  }
  expect_refusal(unload(engine, -1), "no such adapter slot");
  expect_refusal(unload(engine, 3), "no such adapter slot");
  must(unload(engine, 2));
}

void refuse_batches(el_engine* engine, const PackedHeader& shape) {
  const auto vocab = static_cast<int32_t>(shape.vocab_size);
  const auto context = static_cast<int32_t>(shape.max_context_tokens);
  const std::vector<int32_t> many(49, 1);
  const std::pair<std::vector<Chunk>, const char*> cases[] = {
      {{}, "at least one sequence"},
      {{{{}, 0, {0}, {}}}, "1 to max_step_tokens"},
      {{{{1}, 0, {0}, {}}, {{}, 0, {1}, {}}}, "1 to max_step_tokens"},
      {{{many, 0, blocks(0, 4), {}}}, "1 to max_step_tokens"},
      {{{{1}, 0, {0}, {}}, {std::vector<int32_t>(48, 1), 0, blocks(1, 3), {}}}, "1 to max_step_tokens"},
      {{{{vocab}, 0, {0}, {}}}, "vocabulary"},
      {{{{-1}, 0, {0}, {}}}, "vocabulary"},
      {{{{1, INT32_MAX}, 0, {0}, {}}}, "vocabulary"},
      {{{{1}, -1, {0}, {}}}, "context"},
      {{{{1}, context, blocks(0, 12), {}}}, "context"},
      {{{{1}, INT32_MAX, {0}, {}}}, "context"},
      {{{{1, 1}, context - 1, blocks(0, 12), {}}}, "context"},
      {{{{1}, 0, {}, {}}}, "too short"},
      {{{{1}, 16, {0}, {}}}, "too short"},
      {{{{1}, 0, {12}, {}}}, "does not exist"},
      {{{{1}, 0, {-1}, {}}}, "does not exist"},
      {{{{1}, 0, {0, INT32_MAX}, {}}}, "does not exist"},
      {{{{1}, 0, {0}, {}}, {{1}, 0, {0}, {}}}, "write the same block"},
      {{{std::vector<int32_t>(17, 1), 0, {2, 2}, {}}}, "write the same block"},
      {{{{1}, 0, {0}, {}}, {{1}, 16, {0, 1}, {}}}, "reads a block"},
      {{{{1}, 16, {0, 1}, {}}, {{1}, 0, {0}, {}}}, "reads a block"},
      {{{{1}, 16, {2, 2}, {}}}, "reads a block"},
      {{{{1}, 0, {0}, {{3, 1.0f}}}}, "no such adapter slot"},
      {{{{1}, 0, {0}, {{-1, 1.0f}}}}, "no such adapter slot"},
      {{{{1}, 0, {0}, {{1, 1.0f}}}}, "holds nothing"},
      {{{{1}, 0, {0}, {{0, 1.0f}, {1, 1.0f}}}}, "holds nothing"},
      {{{{1}, 0, {0}, {{0, kNan}}}}, "weight"},
      {{{{1}, 0, {0}, {{0, kInfinity}}}}, "weight"},
      {{{std::vector<int32_t>(40, 1), 0, blocks(0, 3),
         std::vector<std::pair<int32_t, float>>(1 << 15, {0, 1.0f})}},
       "too many rows"},
  };
  std::vector<float> logits;
  for (const auto& [chunks, part] : cases) {
    expect_refusal(forward(engine, chunks, logits), part);
    for (const float logit : logits) expect(logit == 0.0f, "a refused step writes nothing");
  }

  const auto refuse_offsets = [&](auto change, const char* part) {
    Batch batch({{{1, 2}, 0, {0, 1}, {{0, 1.0f}}}, {{3}, 0, {2}, {{0, 1.0f}}}});
    change(batch);
    const el_batch view = batch.view();
    char error[256] = "";
    logits.assign(size_t{2} * shape.vocab_size, 0.0f);
    expect(el_forward(engine, &view, logits.data(), error, sizeof error) != 0, part);
    expect_refusal(error, part);
  };
  for (const int32_t wrong : {INT32_MIN, -1, INT32_MAX}) {
    refuse_offsets([&](Batch& b) { b.token_offsets[0] = wrong; }, "start at 0");
    refuse_offsets([&](Batch& b) { b.block_offsets[0] = wrong; }, "start at 0");
    refuse_offsets([&](Batch& b) { b.adapter_offsets[0] = wrong; }, "start at 0");
    refuse_offsets([&](Batch& b) { b.token_offsets[1] = wrong; }, "1 to max_step_tokens");
    refuse_offsets([&](Batch& b) { b.token_offsets[2] = wrong; }, "1 to max_step_tokens");
  }
  for (const int32_t wrong : {INT32_MIN, -1}) {
    refuse_offsets([&](Batch& b) { b.block_offsets[1] = wrong; }, "must not fall");
    refuse_offsets([&](Batch& b) { b.adapter_offsets[2] = wrong; }, "must not fall");
  }
  const auto refuse_missing = [&](auto change) {
    const Batch batch({{{1, 2}, 0, {0, 1}, {{0, 1.0f}}}});
    el_batch view = batch.view();
    change(view);
    char error[256] = "";
    expect(el_forward(engine, &view, logits.data(), error, sizeof error) != 0, "no array");
    expect_refusal(error, "missing");
  };
  refuse_missing([](el_batch& b) { b.token_ids = nullptr; });
  refuse_missing([](el_batch& b) { b.token_offsets = nullptr; });
  refuse_missing([](el_batch& b) { b.start_positions = nullptr; });
  refuse_missing([](el_batch& b) { b.block_tables = nullptr; });
  refuse_missing([](el_batch& b) { b.block_offsets = nullptr; });
  refuse_missing([](el_batch& b) { b.adapter_slots = nullptr; });
  refuse_missing([](el_batch& b) { b.adapter_weights = nullptr; });
  refuse_missing([](el_batch& b) { b.adapter_offsets = nullptr; });
  refuse_missing([](el_batch& b) { b.needs_logits = nullptr; });
}

}  // namespace

void run_refusals(const std::string& model) {
  const PackedFile file(model);
  const PackedHeader& shape = file.header();
  refuse_limits(model);
  const EnginePointer engine = must_open(model, kLimits);
  const Adapter adapter(shape, 4, 8, all_modules());
  must(load(engine.get(), 0, adapter.pairs));
  const std::vector<int32_t> prompt{1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9};
  const auto run = [&](int32_t slot) {
    return must_forward(engine.get(), {{prompt, 0, {3, 5}, {{slot, 1.0f}}}, {{2}, 0, {1}, {}}});
  };
  const std::vector<float> expected = run(0);
  for (const float logit : expected) expect(std::isfinite(logit), "the logits are finite");
  refuse_adapters(engine.get(), shape);
  refuse_batches(engine.get(), shape);
  for (const int32_t count : {INT32_MIN, -1, 0, kLimits.num_threads + 1, INT32_MAX})
    expect_refusal(set_threads(engine.get(), count), "number of threads");
  expect(run(0) == expected, "refusals change nothing");
  must(load(engine.get(), 1, adapter.pairs));
  expect(run(1) == expected, "a slot that was refused is as good as another");
}

}  // namespace edgelora::check
