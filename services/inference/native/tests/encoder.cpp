// What the encoder computes, alone and in company, and what it refuses.
#include <atomic>
#include <cmath>
#include <cstdio>
#include <limits>
#include <thread>

#include "script.h"
#include "texts.h"

namespace edgelora::check {
namespace {

constexpr el_encoder_limits kLimits{4, 20, 96, 2};
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

void expect_refusal(const Refusal& refusal, const std::string& part) {
  expect(refusal.find(part) != std::string::npos,
         "a refusal with \"" + part + "\", got \"" + refusal + "\"");
}

EncoderPointer must_open_encoder(const std::string& model, const el_encoder_limits& limits) {
  Refusal refusal;
  EncoderPointer encoder = open_encoder(model, limits, refusal);
  must(refusal);
  return encoder;
}

void load_all(el_encoder* encoder, const EncoderFile& file) {
  must(load(encoder, 0, encoder_adapter(file, 1, 8, all_encoder_modules()).pairs));
  must(load(encoder, 1, encoder_adapter(file, 2, 20, all_encoder_modules()).pairs));
  must(load(encoder, 2, encoder_adapter(file, 3, 3, {EL_QUERY, EL_VALUE}).pairs));
}

// Of every length from one token to more than two blocks of keys.
std::vector<Text> script_texts(const EncoderFile& file) {
  Numbers numbers(7);
  const auto tokens = [&](size_t count) {
    std::vector<int32_t> list(count);
    for (int32_t& token : list)
      token = static_cast<int32_t>(numbers.below(file.header().vocab_size));
    return list;
  };
  const int32_t last = file.has_pooler() ? EL_POOL_POOLER : EL_POOL_FIRST;
  return {{tokens(1), {{0, 1.0f}}, EL_POOL_MEAN}, {tokens(16), {}, EL_POOL_MEAN},
          {tokens(17), {{2, 0.5f}, {1, -1.0f}}, last}, {tokens(12), {{1, 1.0f}}, EL_POOL_FIRST},
          {tokens(33), {{0, 1e-37f}}, EL_POOL_MEAN}, {tokens(3), {{2, 1.0f}}, last}};
}

// Loads and unloads beside the steps; nobody reads the slot.
void churn(el_encoder* encoder, const EncoderFile& file, const std::atomic<bool>& is_done) {
  const Adapter adapter = encoder_adapter(file, 9, 16, all_encoder_modules());
  while (!is_done) {
    must(load(encoder, 3, adapter.pairs));
    must(unload(encoder, 3));
  }
}

void refuse_texts(el_encoder* encoder, const EncoderFile& file) {
  const auto vocab = static_cast<int32_t>(file.header().vocab_size);
  const std::vector<int32_t> many(97, 1);
  const std::vector<int32_t> context(file.header().max_context_tokens + 1, 1);
  const std::pair<std::vector<Text>, const char*> cases[] = {
      {{}, "at least one text"},
      {{{{}, {}}}, "1 to max_step_tokens"},
      {{{{1}, {}}, {{}, {}}}, "1 to max_step_tokens"},
      {{{many, {}}}, "1 to max_step_tokens"},
      {{{context, {}}}, "context"},
      {{{{vocab}, {}}}, "vocabulary"},
      {{{{1, -1}, {}}}, "vocabulary"},
      {{{{1}, {}, EL_NUM_POOLINGS}}, "no such pooling"},
      {{{{1}, {}, -1}}, "no such pooling"},
      {{{{1}, {{4, 1.0f}}}}, "no such adapter slot"},
      {{{{1}, {{-1, 1.0f}}}}, "no such adapter slot"},
      {{{{1}, {{3, 1.0f}}}}, "holds nothing"},
      {{{{1}, {{0, kNan}}}}, "weight"},
  };
  std::vector<float> vectors;
  for (const auto& [texts, part] : cases) expect_refusal(encode(encoder, texts, vectors), part);
  const auto refuse_view = [&](auto change, const char* part) {
    Texts batch({{{1, 2}, {{0, 1.0f}}}, {{3}, {{0, 1.0f}}}});
    el_texts view = batch.view();
    change(batch, view);
    char error[256] = "";
    expect(el_encode(encoder, &view, vectors.data(), error, sizeof error) != 0, part);
    expect_refusal(error, part);
  };
  for (const int32_t wrong : {INT32_MIN, -1, INT32_MAX}) {
    refuse_view([&](Texts& t, el_texts&) { t.token_offsets[0] = wrong; }, "start at 0");
    refuse_view([&](Texts& t, el_texts&) { t.adapter_offsets[0] = wrong; }, "start at 0");
    refuse_view([&](Texts& t, el_texts&) { t.token_offsets[1] = wrong; }, "1 to max_step_tokens");
  }
  for (const int32_t wrong : {INT32_MIN, -1})
    refuse_view([&](Texts& t, el_texts&) { t.adapter_offsets[2] = wrong; }, "must not fall");
  constexpr const char* kMissing = "missing";
  refuse_view([](Texts&, el_texts& v) { v.token_ids = nullptr; }, kMissing);
  refuse_view([](Texts&, el_texts& v) { v.token_offsets = nullptr; }, kMissing);
  refuse_view([](Texts&, el_texts& v) { v.adapter_offsets = nullptr; }, kMissing);
  refuse_view([](Texts&, el_texts& v) { v.poolings = nullptr; }, kMissing);
  refuse_view([](Texts&, el_texts& v) { v.adapter_slots = nullptr; }, kMissing);
  refuse_view([](Texts&, el_texts& v) { v.adapter_weights = nullptr; }, kMissing);
}

void refuse_limits(const std::string& model) {
  const std::pair<el_encoder_limits, const char*> cases[] = {
      {{-1, 8, 96, 1}, "max_loras"},     {{4, 0, 96, 1}, "max_lora_rank"},
      {{4, 8, 0, 1}, "max_step_tokens"}, {{4, 8, INT32_MAX, 1}, "max_step_tokens"},
      {{4, 8, 96, 0}, "num_threads"},    {{4, 8, 96, INT32_MAX}, "num_threads"},
  };
  Refusal refusal;
  for (const auto& [limits, name] : cases) {
    expect(open_encoder(model, limits, refusal) == nullptr, "limits out of range open nothing");
    expect_refusal(refusal, name);
  }
  expect(open_encoder(model + ".missing", kLimits, refusal) == nullptr, "no file opens nothing");
  expect_refusal(refusal, "cannot open");
  char error[64] = "";
  expect(el_encoder_open(model.c_str(), nullptr, error, sizeof error) == nullptr, "no limits");
  expect_refusal(error, "limits");
}

void refuse_adapters(el_encoder* encoder, const EncoderFile& file) {
  const auto load_changed = [&](auto change) {
    Adapter adapter = encoder_adapter(file, 5, 8, all_encoder_modules());
    change(adapter.pairs);
    return load(encoder, 3, adapter.pairs);
  };
  using Pairs = std::vector<el_lora_pair>;
  expect_refusal(load_changed([](Pairs& p) { p[1].module = EL_NUM_ENCODER_MODULES; }), "range");
  expect_refusal(load_changed([](Pairs& p) { p[1].layer = 1 << 20; }), "range");
  expect_refusal(load_changed([](Pairs& p) { p[1].in_features += 32; }), "sizes");
  expect_refusal(load_changed([](Pairs& p) { p[4].out_features -= 32; }), "sizes");
  expect_refusal(load_changed([](Pairs& p) { p[1].rank = 21; }), "rank");
  const std::vector<float> wrong(size_t{8} * file.header().feed_forward_size, kNan);
  expect_refusal(load_changed([&](Pairs& p) { p[0].lora_a = wrong.data(); }), "finite");
}

}  // namespace

void run_encoder(const std::string& model, const std::string& output) {
  const EncoderFile file(model);
  const EncoderPointer encoder = must_open_encoder(model, kLimits);
  load_all(encoder.get(), file);
  const std::vector<Text> texts = script_texts(file);
  std::atomic<bool> is_done{false};
  std::thread other([&] { churn(encoder.get(), file, is_done); });
  const std::vector<float> all = must_encode(encoder.get(), texts);
  const size_t size = file.header().hidden_size;
  for (size_t i = 0; i < texts.size(); i++) {
    const std::vector<float> alone = must_encode(encoder.get(), {texts[i]});
    const auto begin = all.begin() + static_cast<ptrdiff_t>(i * size);
    expect(std::equal(alone.begin(), alone.end(), begin), "a text alone has the same bits");
  }
  is_done = true;
  other.join();
  const EncoderPointer single = must_open_encoder(model, {4, 20, 96, 1});
  load_all(single.get(), file);
  expect(must_encode(single.get(), texts) == all, "any number of threads gives the same bits");
  for (const float value : all) expect(std::isfinite(value), "the vectors are finite");

  std::FILE* out = std::fopen(output.c_str(), "wb");
  expect(out != nullptr, "the output can be opened");
  expect(std::fwrite(all.data(), sizeof(float), all.size(), out) == all.size(), "it is written");
  expect(std::fclose(out) == 0, "the output is written");
}

void run_encoder_refusals(const std::string& model) {
  const EncoderFile file(model);
  refuse_limits(model);
  const EncoderPointer encoder = must_open_encoder(model, kLimits);
  load_all(encoder.get(), file);
  const std::vector<Text> texts = script_texts(file);
  const std::vector<float> expected = must_encode(encoder.get(), texts);
  refuse_adapters(encoder.get(), file);
  refuse_texts(encoder.get(), file);
  expect(must_encode(encoder.get(), texts) == expected, "refusals change nothing");

  // An adapter whose products overflow spoils its own text and no other.
  Adapter huge = encoder_adapter(file, 5, 8, all_encoder_modules());
  for (el_lora_pair& pair : huge.pairs) pair.scaling = 1e38f;
  must(load(encoder.get(), 3, huge.pairs));
  const std::vector<float> mixed = must_encode(
      encoder.get(), {{{1, 2, 3}, {{3, 1.0f}}, EL_POOL_FIRST}, texts[0]});
  const auto size = static_cast<ptrdiff_t>(file.header().hidden_size);
  for (ptrdiff_t i = 0; i < size; i++)
    expect(std::isnan(mixed[static_cast<size_t>(i)]), "a vector that overflows is all NaN");
  expect(std::equal(mixed.begin() + size, mixed.end(), expected.begin()), "the other is as alone");
}

}  // namespace edgelora::check
