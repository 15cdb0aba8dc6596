// The JSON library with optimization. Tests are not optimized, and the linker takes an inline function from
// the first file that has it. Every test links this file first, so that the libraries do not get the test's
// unoptimized functions.
#include "optrush/json.h"

template class nlohmann::basic_json<nlohmann::ordered_map>;
template class nlohmann::detail::serializer<nlohmann::ordered_json>;
