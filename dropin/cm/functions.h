// The engine's functions for the connection manager (verbs/engine.h says how they are called).
#ifndef CM_FUNCTIONS_H
#define CM_FUNCTIONS_H

#define ENGINE_FUNCTIONS_CM(F) F(cm_devices, (char **names, int n, int chosen))

#endif
