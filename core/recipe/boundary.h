#pragma once
#include <functional>
#include <string>

namespace optrush {
/// Calls code of a plugin. What it throws goes on with `where` ("plugin 'mine' in apply") in front, and stays
/// what it is: a rung that is skipped stays skipped, one that is out of memory stays out of memory.
void call_plugin(const std::string& where, const std::function<void()>& code);
}  // namespace optrush
