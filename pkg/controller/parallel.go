// Copyright The Millwright Authors.
// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"
	"runtime/debug"
	"sync"
)

// Parallel calls do for each number below count, at most limit calls concurrently, and returns when all have returned. A panic in one of them
// becomes a panic of the caller, which a Loop recovers: in another goroutine it would end the process, with all other controllers.
func Parallel(count, limit int, do func(i int)) {
	if count == 1 {
		do(0)
		return
	}
	var (
		wg       sync.WaitGroup
		once     sync.Once
		panicked string
	)
	places := make(chan struct{}, limit)
	for i := range count {
		places <- struct{}{}
		wg.Go(func() {
			defer func() {
				<-places
				if value := recover(); value != nil {
					once.Do(func() { panicked = fmt.Sprintf("%v\n%s", value, debug.Stack()) })
				}
			}()
			do(i)
		})
	}
	wg.Wait()
	if panicked != "" {
		panic(panicked)
	}
}
