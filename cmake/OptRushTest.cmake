# Functions that declare tests. The target `optrush-tests` builds all tests. The target `all` does not, because experiments
# do not need them.
#
#   optrush_test(NAME files SOURCES files_test.cpp LIBS optrush_base)     GoogleTest, torch-free
#   optrush_test(NAME rope SOURCES rope_test.cpp TORCH LABELS slow)       GoogleTest, linked with liboptrush.so
#   optrush_command_test(NAME schema COMMAND ${OPTRUSH_TEST_PYTHON} check.py)    any program: 0 passed, 77 skipped
#
# Tests of one subject share a program. Its files are compiled together (OPTRUSH_UNITY) and linked once. Each test is a separate
# test of ctest, which runs the cases of its files, and a target test_NAME. A program should have five to eight files, because
# a change of one file compiles all of them again.
#
#   optrush_test_program(optimizer_tests LIBS muon_parts lion_parts DEPENDS muon lion TORCH)
#   optrush_test(NAME muon PROGRAM optimizer_tests SOURCES muon_test.cpp)
#   optrush_test(NAME lion PROGRAM optimizer_tests SOURCES lion_test.cpp)
#
# Common options: LABELS (unit by default, slow, threads, lint, parity, distributed, gpu), TIMEOUT seconds if 900 (1800 for `slow`) may be
# too few: the limit ends a test that hangs, and machines differ by a factor of five. SERIAL if no other test may run at the same time,
# COST seconds of a long test: long ones start first. DEPENDS: targets that are built before it.
#
# LOCK name: only one test with this name runs at a time. For tests that compile the same units and would wait for each other.
# WARM_PYTHON: its compilations are forks of a Python that has loaded Inductor (tests/support/warm_python.py).
#
# A process that links LibTorch takes half a second to start. All cases of such a test therefore share one process and are one
# test, NAME. The cases of a test in a PROGRAM also share it. In other tests, and with APART, each case has a separate
# process and is the test NAME.SUITE.CASE. Use APART for cases that change the state of the whole process.
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
  set(timeout 900)
  if("slow" IN_LIST ARG_LABELS)
    set(timeout 1800)
  endif()
  if("${ARG_TIMEOUT}" GREATER timeout)
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

# Deferred: the files are known when all tests of the folder are declared.
function(optrush_test_program name)
  cmake_parse_arguments(PARSE_ARGV 1 ARG "TORCH" "" "LIBS;DEPENDS")
  if(ARG_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "optrush_test_program(name [LIBS l…] [DEPENDS targets…] [TORCH]); not understood: ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  set(target test_${name})
  add_executable(${target} EXCLUDE_FROM_ALL)
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/bin OPTRUSH_TORCH "${ARG_TORCH}")
  target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  target_link_libraries(${target} PRIVATE ${ARG_LIBS} test_folders test_main GTest::gmock optrush_warnings)
  target_link_options(${target} PRIVATE $<TARGET_OBJECTS:optimized_json>)  # options come before objects
  set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS $<TARGET_OBJECTS:optimized_json>)
  add_dependencies(${target} optimized_json ${ARG_DEPENDS})
  if(ARG_TORCH)
    target_link_libraries(${target} PRIVATE training_support optrush_core $<TARGET_OBJECTS:seeded_draws>)
    add_dependencies(${target} seeded_draws)
    target_precompile_headers(${target} REUSE_FROM torch_test_headers)
  else()
    target_precompile_headers(${target} REUSE_FROM test_headers)
  endif()
  add_dependencies(optrush-tests ${target})
  cmake_language(EVAL CODE "cmake_language(DEFER CALL optrush_unity ${target})")
endfunction()

function(optrush_test)
  cmake_parse_arguments(PARSE_ARGV 0 ARG "TORCH;SERIAL;APART;WARM_PYTHON" "NAME;PROGRAM;TIMEOUT;COST;LOCK"
                        "SOURCES;LIBS;DEPENDS;LABELS")
  if(NOT ARG_NAME OR NOT ARG_SOURCES OR ARG_UNPARSED_ARGUMENTS OR (ARG_PROGRAM AND (ARG_APART OR ARG_LIBS OR ARG_DEPENDS OR ARG_TORCH)))
    message(FATAL_ERROR "optrush_test(NAME n SOURCES s… {PROGRAM p | [LIBS l…] [DEPENDS targets…] [TORCH] [APART]} [LABELS l…] [TIMEOUT s] "
                        "[COST s] [LOCK l] [SERIAL] [WARM_PYTHON]); not understood: ${ARG_UNPARSED_ARGUMENTS}")
  endif()
  _optrush_test_limits()
  set(program ${ARG_PROGRAM})
  if(NOT program)
    set(program ${ARG_NAME})
    set(torch)
    if(ARG_TORCH)
      set(torch TORCH)
    endif()
    optrush_test_program(${program} LIBS ${ARG_LIBS} DEPENDS ${ARG_DEPENDS} ${torch})
  endif()
  set(target test_${program})
  target_sources(${target} PRIVATE ${ARG_SOURCES})
  # Tests start hundreds of fake programs, which are Python scripts. A `python3` of a version manager is a shell script, and
  # takes longer than the fake program itself.
  set(environment ENVIRONMENT_MODIFICATION PATH=path_list_prepend:${OPTRUSH_TEST_PYTHON_FOLDER})
  get_target_property(torch ${target} OPTRUSH_TORCH)
  if(torch)
    # OpenMP threads that spin while they wait use the cores of other tests. Steps of a small model then take 20 times as long.
    list(APPEND environment ENVIRONMENT OMP_WAIT_POLICY=passive)
  endif()
  set(properties TIMEOUT ${timeout} RUN_SERIAL ${serial} COST ${cost} ${environment} ${more})
  if(ARG_APART OR NOT (torch OR ARG_PROGRAM))
    gtest_discover_tests(${target} DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60 TEST_PREFIX "${ARG_NAME}."
                         PROPERTIES LABELS "${ARG_LABELS}" ${properties})
    return()
  endif()
  set(files "")
  if(ARG_PROGRAM)
    list(JOIN ARG_SOURCES "," files)
    set(files --file=${files})
    add_custom_target(test_${ARG_NAME})
    add_dependencies(test_${ARG_NAME} ${target})
  endif()
  add_test(NAME ${ARG_NAME} COMMAND ${target} ${files})
  set_tests_properties(${ARG_NAME} PROPERTIES LABELS "${ARG_LABELS}" ${properties})
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
