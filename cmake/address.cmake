# Sets `repository` and `contact` from the file ADDRESS; both are empty until this project is published.
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${CMAKE_SOURCE_DIR}/ADDRESS)
file(READ ${CMAKE_SOURCE_DIR}/ADDRESS address)
string(REGEX MATCH "\ncontact: *([^\n]*)" contact "${address}")
set(contact "${CMAKE_MATCH_1}")
string(REGEX MATCH "\nrepository: *([^\n]*)" repository "${address}")
set(repository "${CMAKE_MATCH_1}")
