#pragma once
#include <map>

#include "linear_groups/groups.h"
#include "optrush/recipe.h"
#include "optrush/run.h"

namespace optrush::float8 {
/// Which tensors of a block only linears of the model read, so that the kernels which compute them may write
/// them in 8 bits alone. A plugin that edits the operators around a tensor may read it or copy it.
class Readers {
 public:
  Readers() = default;
  /// Of a model that has values. The wraps by float8 itself read nothing.
  Readers(const Recipe&, const Run&);

  /// The linear that reads the product of gate and up, if nothing else reads their outputs; otherwise null.
  const Module* after(const Module& gate) const;
  /// Whether nothing else than that linear reads the product.
  bool product_read_once() const { return product_read_once_; }
  /// The linears that read the result of a norm; empty if there are less than two, or other readers.
  LinearGroup of_norm(const Module& norm) const;

 private:
  void add_products(const Unit&);
  void add_norms(const LlamaSpec&, const Unit& block);

  std::map<const Module*, const Module*> after_;
  std::map<const Module*, LinearGroup> of_norm_;
  bool product_read_once_ = false;
};
}  // namespace optrush::float8
