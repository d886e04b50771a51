// One push consumer of apache/rocketmq-client-go whose listener hangs on command.
//
//	consumer NAME_SERVER GROUP TOPIC INSTANCE ordered|concurrent [QUEUE [retries]]
//
// SIGUSR1 lets the listener hang (with QUEUE only for messages of that queue; with "retries" it refuses those, and hangs
// when they come again), SIGUSR2 ends that, SIGTERM leaves the group. It prints "started" and "ended".
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"sync"
	"syscall"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
	"github.com/apache/rocketmq-client-go/v2/rlog"
)

// gate is what each message passes; it is closed while the listener hangs.
type gate struct {
	mutex  sync.Mutex
	opened chan struct{}
}

func (g *gate) closed() chan struct{} {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	return g.opened
}

func (g *gate) set(closed bool) {
	g.mutex.Lock()
	defer g.mutex.Unlock()
	if closed && g.opened == nil {
		g.opened = make(chan struct{})
	} else if !closed && g.opened != nil {
		close(g.opened)
		g.opened = nil
	}
}

func main() {
	rlog.SetLogLevel("warn")
	nameServer, group, topic, instance, ordered := os.Args[1], os.Args[2], os.Args[3], os.Args[4], os.Args[5] == "ordered"
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGTERM)
	pushed, err := rocketmq.NewPushConsumer(
		consumer.WithNsResolver(primitive.NewPassthroughResolver([]string{nameServer})),
		consumer.WithGroupName(group),
		consumer.WithInstance(instance),
		consumer.WithConsumerOrder(ordered),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset),
	)
	if err != nil {
		panic(err)
	}
	listener := &gate{}
	queue, retries := -1, len(os.Args) > 7
	if len(os.Args) > 6 {
		if queue, err = strconv.Atoi(os.Args[6]); err != nil {
			panic(err)
		}
	}
	consume := func(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
		message, opened := messages[0], listener.closed()
		again := message.ReconsumeTimes > 0
		switch {
		case opened == nil:
		case retries && !again && message.Queue.QueueId == queue:
			return consumer.ConsumeRetryLater, nil
		case queue < 0, retries && again, !retries && message.Queue.QueueId == queue:
			<-opened
		}
		return consumer.ConsumeSuccess, nil
	}
	if err = pushed.Subscribe(topic, consumer.MessageSelector{}, consume); err != nil {
		panic(err)
	}
	if err = pushed.Start(); err != nil {
		panic(err)
	}
	fmt.Println("started")
	for one := range signals {
		if one == syscall.SIGTERM {
			break
		}
		listener.set(one == syscall.SIGUSR1)
	}
	_ = pushed.Shutdown()
	fmt.Println("ended")
}
