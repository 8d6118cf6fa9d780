//go:build !unix

package inside

import "errors"

func fresh(int) ([]byte, func(), error) { return nil, nil, errors.ErrUnsupported }

func lockOnce([]byte) (float64, error) { return 0, errors.ErrUnsupported }
