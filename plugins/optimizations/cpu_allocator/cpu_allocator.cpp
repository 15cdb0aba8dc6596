// A caching allocator for CPU tensors, like LibTorch's for GPUs. Lists of size classes hand out the blocks of
// a step again in the next step. So no page is faulted in, no heap is searched, and a reused block is still
// in the cache. Large blocks can use pages of 2 MiB, which avoids TLB misses. It pays if a step makes many
// tensors of medium and large size, and not if matmuls dominate. It holds more memory than tensors request:
// up to a fifth by size classes, and blocks of sizes that are not requested again (the report shows both).
// jemalloc and tcmalloc work in the same way:
// https://people.freebsd.org/~jasone/jemalloc/bsdcan2006/jemalloc.pdf
#include "optrush/plugin.h"
#include "pool.h"

namespace {
using namespace optrush;

class CpuAllocator final : public Plugin {
 public:
  void apply(Recipe& recipe, const Options& options) override {
    recipe.on(Event::mesh_initialized, Phase::base, [huge = options.boolean("huge_pages")](Run& run) {
      if (run.device().is_cuda())
        throw Skip(ErrorCode::unsupported,
                   "the tensors of this run are on a GPU, which has a caching allocator already",
                   "remove the rung, or run it with device = \"cpu\"");
      if (run.device().is_cpu()) use_host_memory(std::make_shared<cpu_allocator::Pool>(huge));
    });
  }
};
}  // namespace

OPTRUSH_PLUGIN(CpuAllocator, R"json({
  "name": "cpu_allocator", "version": "0.1.0", "kind": "optimization", "effect": "exact",
  "summary": "a caching allocator for CPU tensors, which reuses freed memory by size",
  "options": [
    {"name": "huge_pages", "type": "boolean", "default": true, "doc": "request pages of 2 MiB from the kernel"}
  ]
})json");
