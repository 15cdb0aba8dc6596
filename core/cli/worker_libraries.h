#pragma once

namespace optrush {
/// A wheel's workers look for torch beside their package in site-packages. Where it lies elsewhere, this adds
/// it to LD_LIBRARY_PATH of this process, for all that it starts.
void let_workers_find_torch();
}  // namespace optrush
