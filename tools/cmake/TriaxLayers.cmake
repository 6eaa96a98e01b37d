# SPDX-License-Identifier: Apache-2.0
# One static library per folder of triax/, linked after tools/layers.txt.

function(triax_add_layers)
  set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
               ${CMAKE_SOURCE_DIR}/tools/layers.txt)
  file(STRINGS ${CMAKE_SOURCE_DIR}/tools/layers.txt lines REGEX "^[a-z]")
  set(plain "")
  set(all "")
  foreach(line ${lines})
    string(REGEX MATCHALL "[^ ]+" words "${line}")
    list(GET words 0 folder)
    list(GET words 1 level)
    list(GET words 2 kind)
    if(kind STREQUAL "torch" AND NOT TRIAX_TORCH)
      continue()
    endif()
    if(folder STREQUAL "comm" AND TRIAX_FUZZ)
      continue()  # clang 14 has no std::source_location, and no reader needs it
    endif()
    file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/triax/${folder}/*.cpp)
    if(NOT sources)
      continue()
    endif()
    set(target triax_${folder})
    add_library(${target} STATIC ${sources})
    target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR})
    set_property(GLOBAL PROPERTY triax_level_${folder} ${level})
    foreach(other ${all})
      get_property(other_level GLOBAL PROPERTY triax_level_${other})
      if(other_level LESS level AND (kind STREQUAL "torch" OR other IN_LIST plain))
        target_link_libraries(${target} PUBLIC triax_${other})
      endif()
    endforeach()
    if(kind STREQUAL "torch")
      triax_use_torch(${target})
    else()
      list(APPEND plain ${folder})
    endif()
    list(APPEND all ${folder})
  endforeach()
  set_property(GLOBAL PROPERTY triax_plain_folders ${plain})
  set_property(GLOBAL PROPERTY triax_all_folders ${all})
  target_link_libraries(triax_base PUBLIC Threads::Threads)
  find_package(yaml-cpp 0.7 REQUIRED)
  target_link_libraries(triax_foreign PUBLIC yaml-cpp)
endfunction()

# A precompiled header of tools/cmake for other targets to reuse. Not through
# ccache: one that it once stored broken (two builds in one folder) makes the
# compiler crash in every later build.
function(triax_add_pch target header)
  add_library(${target} OBJECT ${CMAKE_SOURCE_DIR}/tools/cmake/pch.cpp)
  target_include_directories(${target} PUBLIC ${CMAKE_SOURCE_DIR})
  target_precompile_headers(${target} PRIVATE
    ${CMAKE_SOURCE_DIR}/tools/cmake/${header})
  target_compile_options(${target} PRIVATE -fpch-preprocess)
  set_target_properties(${target} PROPERTIES CXX_COMPILER_LAUNCHER "")
endfunction()

# Links a test of a plain folder with that folder and what lies below it; with
# every plain folder where the tests have no folder of the library (cli).
function(triax_link_folder target folder)
  if(TARGET triax_${folder})
    target_link_libraries(${target} PRIVATE triax_${folder})
  else()
    triax_link(${target} plain)
  endif()
endfunction()

# Links `target` with every plain folder, or with all of them (it then reuses
# the precompiled header of the target `pch`, triax_torch_pch if left out).
function(triax_link target kind)
  set(pch triax_torch_pch)
  if(ARGC GREATER 2)
    set(pch ${ARGV2})
  endif()
  get_property(folders GLOBAL PROPERTY triax_${kind}_folders)
  list(REVERSE folders)
  list(TRANSFORM folders PREPEND triax_)
  target_link_libraries(${target} PRIVATE ${folders})
  if(kind STREQUAL "all")
    target_link_libraries(${target} PRIVATE triax_torch)
    target_precompile_headers(${target} REUSE_FROM ${pch})
    # The precompiled header is made with -fPIC; a program's -fPIE differs.
    target_compile_options(${target} PRIVATE -fpch-preprocess -fPIC)
  endif()
endfunction()
