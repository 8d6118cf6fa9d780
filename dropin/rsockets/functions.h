// The engine's functions for sockets (verbs/engine.h says how they are called).
#ifndef RSOCKETS_FUNCTIONS_H
#define RSOCKETS_FUNCTIONS_H

#define ENGINE_FUNCTIONS_RSOCKETS(F)

#endif
