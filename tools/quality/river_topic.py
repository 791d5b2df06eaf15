"""Learns a Kafka topic of JSON events with River and confluent-kafka.

    python river_topic.py HOST:PORT TOPIC EVENTS

reads so many events of partition 0 from the beginning and predicts each before it learns it. The label is _label, 1 or
-1. Numbers are standardized. A string is a feature of value 1, which is several times as fast as OneHotEncoder. The
script prints one JSON object: events and error (%).
"""

import json
import sys

from confluent_kafka import Consumer, TopicPartition
from river import linear_model, preprocessing


def main(brokers, topic, events):
    consumer = Consumer({"bootstrap.servers": brokers, "group.id": "river", "enable.auto.commit": False})
    consumer.assign([TopicPartition(topic, 0, 0)])
    scaler, model = preprocessing.StandardScaler(), linear_model.LogisticRegression()
    seen = wrong = 0
    while seen < events:
        for message in consumer.consume(1000, 10):
            x = json.loads(message.value())
            y = x.pop("_label") == 1
            numbers = {k: v for k, v in x.items() if not isinstance(v, str)}
            scaler.learn_one(numbers)
            x = scaler.transform_one(numbers) | {f"{k}={v}": 1 for k, v in x.items() if isinstance(v, str)}
            wrong += model.predict_one(x) != y
            model.learn_one(x, y)
            seen += 1
    consumer.close()
    print(json.dumps({"events": seen, "error": 100 * wrong / seen}))


main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
