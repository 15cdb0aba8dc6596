#pragma once
#include <map>
#include <string>

#include "optrush/recipe.h"

namespace optrush::checkpointing {
/// Watches the operators of a block while the block's forward runs.
class Watcher {
 public:
  virtual ~Watcher() = default;
  /// Called in place of an operator of the slot: runs it, or replaces it.
  virtual Tensors call(const std::string& slot, const Tensors& inputs,
                       const std::function<Tensors()>& run) = 0;
};

/// Wraps the operators of every block. Each calls its block's watcher, if there is one.
class Operators {
 public:
  /// One block of the model.
  struct Block {
    Watcher* watcher = nullptr;
  };
  /// While it exists, the block's operators go through `watcher`.
  class Watched {
   public:
    Watched(Block& block, Watcher& watcher) : block_(block) { block.watcher = &watcher; }
    ~Watched() { block_.watcher = nullptr; }
    Watched(const Watched&) = delete;
    Watched& operator=(const Watched&) = delete;

   private:
    Block& block_;
  };

  static std::vector<std::string> slots();
  /// Wraps every operator slot that a block has.
  void watch(Recipe&);
  /// Its address is stable.
  Block& block(int64_t layer) { return blocks_[layer]; }

 private:
  template <class AnySlot>
  void watch(AnySlot& slot, const Recipe& recipe);

  std::map<int64_t, Block> blocks_;
};

/// Whether a compiler compiles the blocks. It then implements the recipe's policy.
bool compiled(const Recipe&);
}  // namespace optrush::checkpointing
