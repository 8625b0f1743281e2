//go:build !linux

package machine

import (
	"context"
	"runtime"
)

// Look looks at this machine.
func Look(context.Context) Facts { return Facts{OS: runtime.GOOS} }
