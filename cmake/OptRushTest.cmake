# How a test is declared. Every test is built by the target `optrush-tests`, not by `all`: who only runs experiments
# does not pay for them.
#
#   optrush_test(NAME files SOURCES files_test.cpp LIBS optrush_base)     GoogleTest, torch-free
#   optrush_test(NAME rope SOURCES rope_test.cpp TORCH LABELS slow)       GoogleTest, linked with liboptrush.so
#   optrush_command_test(NAME schema COMMAND ${OPTRUSH_TEST_PYTHON} check.py)    any program: 0 passed, 77 skipped
#
# Common options: LABELS (unit by default, slow, threads, lint, parity, distributed, gpu), TIMEOUT seconds (120; 900 for `slow`), SERIAL where
# the test needs the machine for itself, COST seconds of a long test: long ones start first.
#
# LOCK name: tests of one name run one at a time. For those that compile the same units: the others would wait for the first.
# WARM_PYTHON: what it compiles starts in a Python that has loaded Inductor (tests/support/warm_python.py).
#
# A process that links LibTorch takes half a second to start, so all cases of such a file share one, as the test NAME.
# APART gives each case a process and a test NAME.SUITE.CASE, as every case has that links no LibTorch: for cases that change what the whole process is.
include(GoogleTest)
find_package(GTest 1.11 REQUIRED)

add_custom_target(optrush-tests)

if(NOT OPTRUSH_TEST_PYTHON)
  find_program(OPTRUSH_TEST_PYTHON NAMES python python3 HINTS ${PROJECT_SOURCE_DIR}/.venv/bin
               DOC "Python with the packages of requirements-test.txt")
endif()
cmake_path(GET OPTRUSH_TEST_PYTHON PARENT_PATH OPTRUSH_TEST_PYTHON_FOLDER)

# Sets `timeout` and `serial` in the caller from the parsed arguments.
macro(_optrush_test_limits)
  if(NOT ARG_LABELS)
    set(ARG_LABELS unit)  # gtest_discover_tests drops an empty value: TIMEOUT would become the label
  endif()
  set(timeout 120)
  if("slow" IN_LIST ARG_LABELS)
    set(timeout 900)
  endif()
  if(ARG_TIMEOUT)
    set(timeout ${ARG_TIMEOUT})
  endif()
  if(OPTRUSH_SANITIZE)
    math(EXPR timeout "${timeout} * 4")
  endif()
  set(cost 0)
  if(ARG_COST)
    set(cost ${ARG_COST})
  endif()
  set(serial OFF)
  if(ARG_SERIAL)
    set(serial ON)
  endif()
  set(more "")
  if(ARG_LOCK)
    list(APPEND more RESOURCE_LOCK ${ARG_LOCK})
  endif()
  if(ARG_WARM_PYTHON)
    list(APPEND more FIXTURES_REQUIRED warm_python)
  endif()
endmacro()

# The folders as macros, for those sources alone that name them: ccache can then give all others to every clone.
function(_optrush_test_folders)
  foreach(source ${ARGN})
    file(STRINGS ${source} uses REGEX "OPTRUSH_(TESTS|BUILD)_DIR" LIMIT_COUNT 1)
    if(uses)
      set_source_files_properties(${source} PROPERTIES COMPILE_DEFINITIONS
        "OPTRUSH_TESTS_DIR=\"${PROJECT_SOURCE_DIR}/tests\";OPTRUSH_BUILD_DIR=\"${PROJECT_BINARY_DIR}\"")
    endif()
  endforeach()
endfunction()

function(optrush_test)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "TORCH;SERIAL;APART;WARM_PYTHON" "NAME;TIMEOUT;COST;LOCK" "SOURCES;LIBS;LABELS")
  if(NOT ARG_NAME OR NOT ARG_SOURCES OR ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "optrush_test(NAME n SOURCES s… [LIBS l…] [LABELS l…] [TIMEOUT s] [COST s] [LOCK l] [TORCH] [SERIAL] [APART] [WARM_PYTHON]); "
                        "not understood: ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  _optrush_test_limits()
  set(target test_${ARG_NAME})
  add_executable(${target} EXCLUDE_FROM_ALL ${ARG_SOURCES})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/bin)
  _optrush_test_folders(${ARG_SOURCES})
  target_link_libraries(${target} PRIVATE ${ARG_LIBS} test_folders GTest::gmock GTest::gtest_main optrush_warnings)
  target_link_options(${target} PRIVATE $<TARGET_OBJECTS:optimized_json>)  # options come before objects
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS $<TARGET_OBJECTS:optimized_json>)
  add_dependencies(${target} optimized_json)
  if(ARG_TORCH)
    target_link_libraries(${target} PRIVATE training_support optrush_core)
    target_precompile_headers(${target} REUSE_FROM torch_test_headers)
  else()
    target_precompile_headers(${target} REUSE_FROM test_headers)
  endif()
  optrush_unity(${target})
  add_dependencies(optrush-tests ${target})
  # Fakes that are scripts are started by hundreds. A `python3` of a version manager is a shell script that takes longer than
  # what it starts.
  set(environment ENVIRONMENT_MODIFICATION PATH=path_list_prepend:${OPTRUSH_TEST_PYTHON_FOLDER})
  if(ARG_TORCH)
    # Threads of OpenMP that wait by spinning take the cores from other tests: steps of a small model then last 20 times as long.
    list(APPEND environment ENVIRONMENT OMP_WAIT_POLICY=passive)
  endif()
  if(ARG_TORCH AND NOT ARG_APART)
    add_test(NAME ${ARG_NAME} COMMAND ${target})
    set_tests_properties(${ARG_NAME} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${timeout} RUN_SERIAL ${serial} COST ${cost}
                                                ${environment} ${more})
  else()
    gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 TEST_PREFIX "${ARG_NAME}."
                         PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${timeout} RUN_SERIAL ${serial} COST ${cost}
                                    ${environment} ${more})
  endif()
endfunction()

function(optrush_command_test)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "SERIAL;WARM_PYTHON" "NAME;TIMEOUT;COST;LOCK" "COMMAND;LABELS;DEPENDS;ENVIRONMENT")
  if(NOT ARG_NAME OR NOT ARG_COMMAND OR ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "optrush_command_test(NAME n COMMAND c… [DEPENDS targets…] [ENVIRONMENT K=V…] [LABELS l…] "
                        "[TIMEOUT s] [COST s] [LOCK l] [SERIAL] [WARM_PYTHON]); not understood: ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  _optrush_test_limits()
  if(ARG_DEPENDS)
    add_dependencies(optrush-tests ${ARG_DEPENDS})
  endif()
  add_test(NAME ${ARG_NAME} COMMAND ${ARG_COMMAND} WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR})
  set_tests_properties(${ARG_NAME} PROPERTIES
    LABELS "${ARG_LABELS}" TIMEOUT ${timeout} RUN_SERIAL ${serial} COST ${cost} SKIP_RETURN_CODE 77 ${more}
    ENVIRONMENT "OPTRUSH_SOURCE_DIR=${PROJECT_SOURCE_DIR};OPTRUSH_BUILD_DIR=${PROJECT_BINARY_DIR};OPTRUSH_PROBE_SECONDS=0.02;${ARG_ENVIRONMENT}")
endfunction()
