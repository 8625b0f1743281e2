package main

import (
	"fmt"
	"os"
	"runtime/debug"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"golang.org/x/sys/unix"
	"k8s.io/client-go/rest"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/klog/v2"
)

// divertOutput makes everything that is printed go to the file, and returns the standard output and standard error that the
// process had. It does so below Go's os.Stderr, which loggers of libraries keep from before main. A panic is reported to both.
func divertOutput(file *os.File) (out, errOut *os.File, err error) {
	divert := func(standard *os.File) *os.File {
		var fd int
		if err == nil {
			fd, err = unix.FcntlInt(standard.Fd(), unix.F_DUPFD_CLOEXEC, 0)
		}
		if err == nil {
			err = unix.Dup2(int(file.Fd()), int(standard.Fd()))
		}
		return os.NewFile(uintptr(fd), standard.Name())
	}
	out, errOut = divert(os.Stdout), divert(os.Stderr)
	if err == nil {
		err = debug.SetCrashOutput(errOut, debug.CrashOptions{})
	}
	if err != nil {
		return nil, nil, fmt.Errorf("diverting output to %s: %w", file.Name(), err)
	}
	return out, errOut, nil
}

// configureLogging configures the log of all components. Kubernetes allows it once per process, so the components do not do it.
// A component may also end the process by a fatal log message: gaveUp is called before, and returns the exit code.
func configureLogging(verbosity int, gaveUp func(error) int) error {
	config := logsapi.NewLoggingConfiguration()
	config.Verbosity = logsapi.VerbosityLevel(verbosity)
	if err := logsapi.ValidateAndApply(config, nil); err != nil {
		return fmt.Errorf("configuring the log: %w", err)
	}
	klog.OsExit = func(int) { os.Exit(gaveUp(nil)) }
	// The warnings of an API server about its own requests, and about what its controllers use.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	return nil
}

// etcdLogger is for the warnings of etcd, which has a logging library of its own. Its panics are messages like the fatal ones: what it
// cannot do (write to a full disk, as a rule) is in their error.
func etcdLogger(gaveUp func(error) int) *zap.Logger {
	format := zap.NewProductionEncoderConfig()
	format.EncodeTime = zapcore.ISO8601TimeEncoder
	core := zapcore.NewCore(zapcore.NewConsoleEncoder(format), os.Stderr, zap.WarnLevel)
	hook := exitHook(gaveUp)
	return zap.New(core, zap.AddCaller(), zap.WithFatalHook(hook), zap.WithPanicHook(hook)).Named("etcd")
}

// exitHook is what zap does after a fatal message.
type exitHook func(error) int

// OnWrite implements zapcore.CheckWriteHook.
func (h exitHook) OnWrite(_ *zapcore.CheckedEntry, fields []zapcore.Field) {
	var reason error
	for _, field := range fields {
		if err, ok := field.Interface.(error); ok && field.Type == zapcore.ErrorType {
			reason = err
		}
	}
	os.Exit(h(reason))
}
