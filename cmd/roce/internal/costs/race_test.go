//go:build race

package costs

const raceDetector = true
