#pragma once
#include <functional>
#include <string>

namespace optrush {
/// Calls code of a plugin. An exception is passed on with `where` ("plugin 'mine' in apply") in front of its
/// message and keeps its kind: a Skip stays a Skip, out of memory stays out of memory.
void call_plugin(const std::string& where, const std::function<void()>& code);
}  // namespace optrush
