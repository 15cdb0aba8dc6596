// Readers of files from elsewhere, fed with files that are broken at random. Each must give a value or an
// optrush::Error: any other exception fails the test, and the sanitizers find what a crash does not show.
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <random>

#include "../support/temporary_folder.h"
#include "base/files.h"
#include "data/token_file.h"
#include "data/token_source.h"
#include "io/safetensors.h"
#include "model/hugging_face.h"
#include "optrush/error.h"

namespace optrush {
namespace {
namespace fs = std::filesystem;

/// Breaks a file in one to four places, the same ones for the same seed on every machine.
class Mutator {
 public:
  explicit Mutator(uint64_t seed) : random_(seed) {}

  std::string operator()(std::string bytes) {
    for (uint64_t edits = 1 + below(4); edits > 0; --edits) edit(bytes);
    return bytes;
  }

 private:
  void edit(std::string& bytes) {
    static constexpr std::string_view kPieces[] = {"[",
                                                   "]",
                                                   "{",
                                                   "}",
                                                   "\"",
                                                   ",",
                                                   ":",
                                                   "-1",
                                                   "0",
                                                   "1e999",
                                                   "null",
                                                   "1.5",
                                                   "NaN",
                                                   "true",
                                                   "\"F64\"",
                                                   "[]",
                                                   "\\u00",
                                                   "\xff",
                                                   "9223372036854775807",
                                                   "18446744073709551615"};
    const size_t at = below(bytes.size() + 1);
    switch (below(6)) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        bytes.insert(at, kPieces[below(std::size(kPieces))]);
        break;
      case 2:
        bytes.erase(at, below(16));
        break;
      case 3:
        bytes.insert(at, bytes.substr(below(bytes.size() + 1), below(64)));
        break;
      case 4:
        if (at < bytes.size()) bytes[at] = static_cast<char>(random_());
        break;
      default:
        if (at < bytes.size()) bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
    }
  }
  uint64_t below(uint64_t n) { return n == 0 ? 0 : random_() % n; }

  std::mt19937_64 random_;
};

class Readers : public ::testing::Test {
 protected:
  void write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary | std::ios::trunc)
        << content;  // no fsync: thousands of files
  }
  /// Both outcomes have to occur, or the loop would show nothing.
  template <class Read>
  static void feed(const std::string& valid, int rounds, Read read) {
    Mutator mutate(1);
    int refused = 0;
    for (int i = 0; i < rounds; ++i) {
      const std::string content = mutate(valid);
      try {
        read(content);
      } catch (const Error&) {
        ++refused;
      } catch (const std::exception& e) {
        FAIL() << "round " << i << ": " << e.what();
      }
    }
    EXPECT_GT(refused, rounds / 10);
    EXPECT_LT(refused, rounds);
  }

  const optrush::testing::TemporaryFolder temporary_;
  const fs::path folder_ = temporary_.path();
};

TEST_F(Readers, Safetensors) {
  write_safetensors(folder_ / "a.safetensors", {{"weight", at::ones({4, 3})},
                                                {"empty", at::ones({0, 3})},
                                                {"scalar", at::ones({}, at::kDouble)},
                                                {"half", at::ones({5}, at::kHalf)}});
  feed(read_file(folder_ / "a.safetensors"), 30000, [](const std::string& content) {
    for (const auto& entry :
         parse_safetensors(std::as_bytes(std::span(content.data(), content.size())), "fuzz")) {
      ASSERT_LE(entry.begin, entry.end);
      ASSERT_LE(entry.end, content.size());
      const Tensor tensor = at::empty(entry.shape, entry.dtype);
      ASSERT_EQ(tensor.nbytes(), entry.end - entry.begin);
    }
  });
}

TEST_F(Readers, HuggingFaceConfig) {
  const std::string config = R"({"architectures": ["LlamaForCausalLM"], "vocab_size": 97, "hidden_size": 64,
    "intermediate_size": 113, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
    "rms_norm_eps": 1e-05, "rope_theta": 100000.0, "hidden_act": "silu", "attention_bias": false,
    "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                     "original_max_position_embeddings": 8192}})";
  feed(config, 1000, [&](const std::string& content) {
    write("config.json", content);
    const LlamaSpec spec = llama_from_hugging_face(folder_);
    ASSERT_GT(spec.n_heads, 0);
    ASSERT_EQ(spec.n_heads % spec.n_kv_heads, 0);
  });
}

TEST_F(Readers, CheckpointIndex) {
  write_safetensors(folder_ / "a.safetensors", {{"x", at::ones({2})}});
  write_safetensors(folder_ / "b.safetensors", {{"y", at::ones({2})}});
  feed(R"({"metadata": {"total_size": 16}, "weight_map": {"x": "a.safetensors", "y": "b.safetensors"}})",
       1000, [&](const std::string& content) {
         write("model.safetensors.index.json", content);
         Checkpoint{folder_};
       });
}

TEST_F(Readers, TokenFile) {
  const std::vector<uint32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 8};
  write_token_file(folder_ / "valid.bin", 9, tokens);
  feed(read_file(folder_ / "valid.bin"), 1000, [&](const std::string& content) {
    write("tokens.bin", content);
    const auto source = open_source({.kind = "tokens", .path = folder_ / "tokens.bin"}, 1, 100, 2);
    std::vector<int64_t> sample(2);
    for (int64_t i = 0; i < 8; ++i) {
      source->sample(i, sample);
      ASSERT_LT(*std::ranges::max_element(sample), source->vocab_size());
    }
  });
}
}  // namespace
}  // namespace optrush
