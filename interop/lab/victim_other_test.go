//go:build !linux

package lab

const victimEnv = "GOROCE_LAB_VICTIM"

func beVictim(string) {}
