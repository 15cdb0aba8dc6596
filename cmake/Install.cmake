# The installed tree: bin/ (optrush, optrush-worker), lib/ (liboptrush.so, optrush/plugins, cmake/OptimizationRush),
# include/optrush (the SDK), share/optrush (the Lua library, experiments). It finds itself by $ORIGIN, and LibTorch
# where it was at build time.
include(CMakePackageConfigHelpers)

# The same run path in the build tree, which has the same layout: CMake would pad another one with empty entries, and the
# loader takes those for the working directory.
set_target_properties(optrush optrush-worker optrush_core PROPERTIES BUILD_WITH_INSTALL_RPATH ON)
set_target_properties(optrush-worker PROPERTIES INSTALL_RPATH "$ORIGIN/../lib;${OPTRUSH_TORCH_RPATH}")
set_target_properties(optrush_core PROPERTIES INSTALL_RPATH "${OPTRUSH_TORCH_RPATH}")

install(TARGETS optrush optrush-worker RUNTIME)
install(TARGETS optrush_core EXPORT OptimizationRushTargets LIBRARY INCLUDES DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/core/include/optrush TYPE INCLUDE FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/scripts ${PROJECT_SOURCE_DIR}/experiments DESTINATION ${OPTRUSH_INSTALL_DATA}
        FILES_MATCHING PATTERN "*.lua" PATTERN "peers" EXCLUDE)

configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/OptimizationRushConfig.cmake.in ${PROJECT_BINARY_DIR}/generated/OptimizationRushConfig.cmake
  INSTALL_DESTINATION ${OPTRUSH_INSTALL_CMAKE} PATH_VARS CMAKE_INSTALL_BINDIR)
# API version 0 changes freely, so only the same minor version fits.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/generated/OptimizationRushConfigVersion.cmake
                                 COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/generated/OptimizationRushConfig.cmake
              ${PROJECT_BINARY_DIR}/generated/OptimizationRushConfigVersion.cmake
              ${CMAKE_CURRENT_LIST_DIR}/Torch.cmake ${CMAKE_CURRENT_LIST_DIR}/OptRushPlugin.cmake
              ${CMAKE_CURRENT_LIST_DIR}/OptRushEmbed.cmake ${CMAKE_CURRENT_LIST_DIR}/embedded.h.in
        DESTINATION ${OPTRUSH_INSTALL_CMAKE})
install(EXPORT OptimizationRushTargets NAMESPACE OptimizationRush:: DESTINATION ${OPTRUSH_INSTALL_CMAKE})
