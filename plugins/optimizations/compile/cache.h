#pragma once
#include <filesystem>
#include <string>
#include <vector>

#include "optrush/json.h"
#include "optrush/spec.h"
#include "unit_graph.h"

namespace optrush::compile {
/// Options for Inductor in addition to the graph.
struct Request {
  std::string mode;                    ///< of torch.compile, without CUDA graphs
  Json activations;                    ///< {"policy": save|selective|budget, "keep": [...], "budget": x}
  std::vector<std::string> attention;  ///< kernels that fused attention may take, the preferred first
  int64_t threads = 1;
  Tensors inputs;  ///< examples: sizes, strides, types, requires_grad
};

/// A unit to compile. The objects that it points to must outlive the call.
struct Job {
  std::string key;
  const UnitGraph* graph = nullptr;
  const Request* request = nullptr;
};

/// The kernels that are enabled in LibTorch's context, for Request::attention.
std::vector<std::string> enabled_attention_kernels();

/// Compiled units on disk. The folder of a unit has the hash of everything that its code depends on as its
/// name.
class Cache {
 public:
  /// `root` empty: cache_folder("inductor").
  explicit Cache(const std::string& root);

  static std::string key_of(const UnitGraph&, const Request&);
  /// The folder of the artifact of `key`, which may be incomplete.
  std::filesystem::path folder_of(const std::string& key) const { return root_ / key; }
  bool holds(const std::string& key) const;
  /// The file that stores whether the compiled unit is faster. Its eager code depends on the whole stack.
  std::filesystem::path choice_file(const std::string& key, const RunSpec&) const;
  /// Compiles the jobs that the cache lacks into folder_of(key), in one Python process for all jobs. If
  /// several processes need one key, one compiles and the others wait. Throws a Skip if this machine lacks a
  /// requirement.
  void compile(std::vector<Job>) const;

 private:
  std::filesystem::path root_;
};
}  // namespace optrush::compile
