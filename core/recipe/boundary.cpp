#include "recipe/boundary.h"

#include <c10/util/Exception.h>

#include <new>

#include "base/peer_error.h"
#include "optrush/error.h"

namespace optrush {
void call_plugin(const std::string& where, const std::function<void()>& code) {
  try {
    code();
  } catch (const Skip& e) {
    throw Skip(e.code(), e.message(), e.cure(), e.where().empty() ? where : e.where());
  } catch (const PeerError&) {
    throw;  // the cause is on another rank
  } catch (const Error& e) {
    throw e.at(where);
  } catch (c10::Error& e) {
    e.add_context(where);
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    throw Error(ErrorCode::invalid_plugin, e.what(), {}, where);
  } catch (...) {
    throw Error(ErrorCode::invalid_plugin, "threw an object that is not a std::exception", {}, where);
  }
}
}  // namespace optrush
