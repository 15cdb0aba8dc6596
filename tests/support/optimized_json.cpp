// The JSON library, optimized. Tests are not, and of an inline function that several files have, the linker
// takes the one of the first file: every test is linked with this one first, or the libraries that it calls
// would get the test's.
#include "optrush/json.h"

template class nlohmann::basic_json<nlohmann::ordered_map>;
template class nlohmann::detail::serializer<nlohmann::ordered_json>;
