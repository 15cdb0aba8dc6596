# The installed tree: bin/ (optrush, optrush-worker), lib/ (liboptrush.so, optrush/plugins, cmake/OptimizationRush),
# include/ (the SDK, with the JSON library that its headers include), share/optrush (the Lua library, experiments). Libraries
# are found by $ORIGIN, and LibTorch by installation.json. A wheel (packaging/) is this tree without that file, and uses the
# torch of the Python that starts it.
include(CMakePackageConfigHelpers)

# The build tree has the same layout and the same run path. CMake would pad another run path with empty entries, which the
# loader treats as the working directory.
set_target_properties(optrush optrush-worker optrush_core PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
set_target_properties(optrush-worker PROPERTIES INSTALL_RPATH "$ORIGIN/../lib;${OPTRUSH_TORCH_RPATH}")
set_target_properties(optrush_core PROPERTIES INSTALL_RPATH "${OPTRUSH_TORCH_RPATH}")

install(TARGETS optrush optrush-worker RUNTIME)
install(TARGETS optrush_core EXPORT OptimizationRushTargets LIBRARY INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/core/include/optrush TYPE INCLUDE FILES_MATCHING PATTERN "*.h")
install(FILES ${OPTRUSH_GENERATED_SDK}/optrush/sdk_hash.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/optrush)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/scripts ${PROJECT_SOURCE_DIR}/experiments DESTINATION ${OPTRUSH_INSTALL_DATA}
        FILES_MATCHING PATTERN "*.lua" PATTERN "*.py" PATTERN "*.css" PATTERN "*.js" PATTERN "py.typed" PATTERN "*.txt"
        PATTERN "*.in" PATTERN "__pycache__" EXCLUDE)

# installation.json of the build tree and of a prefix (machine/installation.h).
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/installation.json
     CONTENT "{\"source\": \"@PROJECT_SOURCE_DIR@\", \"torch\": \"@OPTRUSH_TORCH_DIR@\"}\n" @ONLY)
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/generated/installation.json
     CONTENT "{\"torch\": \"@OPTRUSH_TORCH_DIR@\"}\n" @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/generated/installation.json DESTINATION ${OPTRUSH_INSTALL_DATA})

# Small libraries and headers that may be missing where the program runs.
install(IMPORTED_RUNTIME_ARTIFACTS hwy::hwy LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
find_path(OPTRUSH_JSON_INCLUDE nlohmann/json.hpp REQUIRED)
install(DIRECTORY ${OPTRUSH_JSON_INCLUDE}/nlohmann TYPE INCLUDE FILES_MATCHING PATTERN "*.hpp")

set(OPTRUSH_SDK_PLUGINS ${OPTRUSH_INSTALL_PLUGINS})
set(OPTRUSH_SDK_FINDS "")
configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/OptimizationRushConfig.cmake.in ${PROJECT_BINARY_DIR}/generated/OptimizationRushConfig.cmake
  INSTALL_DESTINATION ${OPTRUSH_INSTALL_CMAKE} PATH_VARS CMAKE_INSTALL_BINDIR)
# API version 0 changes freely, so only the same minor version fits.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/OptimizationRushConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
set(_sdk_files
    ${PROJECT_BINARY_DIR}/generated/OptimizationRushConfigVersion.cmake ${CMAKE_CURRENT_LIST_DIR}/Torch.cmake
    ${CMAKE_CURRENT_LIST_DIR}/OptRushPlugin.cmake ${CMAKE_CURRENT_LIST_DIR}/OptRushEmbed.cmake
    ${CMAKE_CURRENT_LIST_DIR}/embedded.h.in)
install(FILES ${PROJECT_BINARY_DIR}/generated/OptimizationRushConfig.cmake ${_sdk_files} DESTINATION ${OPTRUSH_INSTALL_CMAKE})
install(EXPORT OptimizationRushTargets NAMESPACE OptimizationRush:: DESTINATION ${OPTRUSH_INSTALL_CMAKE})

# The build tree is a prefix for find_package, too: it uses the headers of the source tree and the JSON library of the
# system. Plugins that are installed to it are in the same folder as the shipped ones.
set(_sdk ${PROJECT_BINARY_DIR}/${OPTRUSH_INSTALL_CMAKE})
set(OPTRUSH_SDK_PLUGINS plugins)
set(OPTRUSH_SDK_FINDS "find_package(nlohmann_json 3.10 REQUIRED)")
configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/OptimizationRushConfig.cmake.in ${_sdk}/OptimizationRushConfig.cmake
  INSTALL_DESTINATION ${OPTRUSH_INSTALL_CMAKE} INSTALL_PREFIX ${PROJECT_BINARY_DIR} PATH_VARS CMAKE_INSTALL_BINDIR)
foreach(_file ${_sdk_files})
  get_filename_component(_name ${_file} NAME)
  configure_file(${_file} ${_sdk}/${_name} COPYONLY)
endforeach()
export(EXPORT OptimizationRushTargets NAMESPACE OptimizationRush:: FILE ${_sdk}/OptimizationRushTargets.cmake)
